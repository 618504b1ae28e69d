/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/analyser.h: proofs about one object's code.  README.md has the rules and why they suffice.
 *
 *     object_open              file, segments, build-id               object.c
 *     object_read_references   relocations, symbols                   object_relocations.c
 *     frames_read              ranges of .eh_frame                    frames.c
 *     frame_list_read          all its records                        frames/frames.c
 *     units_make               units from them, without PLTs          units.c
 *     mark_units               decode: where instructions start       units.c
 *     check_units              who leads or points into the middle    check.c
 *     check_places             whose places are kept as data          places.c
 *     check_moved_frames       which units unwind elsewhere, too      unwinding.c
 *     decide_units             who depends on code that stays         decide.c
 *     follow_dispatches        who jumps through which tables         dispatch.c
 *     reach_units              who is entered by others               reach.c
 *     emit_units               calls, references, jump tables         emit.c, tables.c
 *     emit_moved_frames        unwinding of moved code                unwinding.c
 *     emit_fixed               what keeps its address                 fixed.c, tabled.c
 *     emit_names               names of moved code, for debuggers     emit.c
 *     analysis_make            the file                               write.c
 *
 * Each step reads the results of earlier ones, and does not change them, except a unit's reason: the first
 * one found is kept.
 */
#ifndef ANALYZE_ANALYSIS_H
#define ANALYZE_ANALYSIS_H

#include "rimf/x86/decode.h"
#include "rimf/analyze/frames/frames.h"
#include "rimf/analyze/object.h"

#include "rimf/analysis/analysis.h"

struct unit {
    uint32_t start, end;
    uint32_t where; /* the address that gave the reason */
    uint8_t reason; /* enum analysis_reason */
    uint8_t falls;  /* control can run off its end */
    uint8_t jumps;  /* it has an indirect jump */
    uint8_t called; /* its last instruction is a call; 2: of the system */
    uint8_t reached, head, held; /* as the flags of analysis_unit */
    uint8_t followed;      /* what its original calls is reached */
    uint8_t joined;        /* it moves as far as the next unit */
    uint8_t dispatches;    /* how it uses the addresses of tables is known */
    uint64_t spoils;       /* table_bit of tables that it uses otherwise */
    uint8_t kept;          /* its canonical address stays the original, although it may move */
};

/* One of 64 bits, which several tables may share. */
static inline uint64_t table_bit(uint32_t table)
{
    return 1ull << table / 4 % 64;
}

/* The code of one executable segment. */
struct code {
    uint32_t start, end;
    const uint8_t *bytes;
    uint64_t *starts;     /* one bit for each byte: an instruction begins */
    uint64_t *entered;    /* one bit for each byte: a known branch or pointer ends here */
    uint32_t *first_unit; /* for each page, and one behind the last: the first unit that ends behind the
                           * page's start */
};

struct edge { /* `from` may move only if `to` does */
    uint32_t from, to;
    uint32_t where;
    uint8_t reason;
};

/* lea of an address in a unit; UINT32_MAX: in undecoded code.  A label: an address in a unit, not its
 * start. */
struct taken {
    uint32_t target, unit;
    uint8_t is_label;
};

struct analyser {
    struct object object;
    struct frame_list list;
    union { /* what grows: vectors_failed, vectors_free */
        struct vector all[16];
        struct {
            struct vector frames;      /* struct frame */
            struct vector units;       /* struct unit, sorted, disjoint */
            struct vector edges;       /* struct edge */
            struct vector calls;       /* struct analysis_call */
            struct vector references;  /* struct analysis_reference */
            struct vector candidates;  /* uint32_t: targets of units' jumps */
            struct vector spoiled;     /* uint32_t: tables that must stay, and other addresses */
            struct vector jump_tables; /* struct analysis_jump_table */
            struct vector taken;       /* struct taken, sorted by unit */
            struct vector read;        /* uint32_t: data addresses in instructions; only for an object that locates */
            struct vector moved_frames; /* struct analysis_frame */
            struct vector frame_fixes; /* struct analysis_frame_fix */
            struct vector branches;    /* struct analysis_branch */
            struct vector fixed;       /* struct analysis_fixed */
            struct vector symbols;     /* Elf64_Sym */
            struct vector names;       /* char: their strings */
        };
    };
    struct code *code;
    size_t n_code;
    int based; /* some code computes with its own address, and so perhaps others' addresses */
};

/* Runs all steps.  0, or -1 with object.error set; call analyser_free in both cases. */
int analyser_run(struct analyser *, const char *path);
/* The same if `object` is open and the rest of the struct zero. */
int analyser_finish(struct analyser *);
/* The same for bytes in memory. */
int analyser_run_bytes(struct analyser *, const uint8_t *bytes, size_t size);
void analyser_free(struct analyser *);

static inline struct unit *units_of(const struct analyser *a)
{
    return a->units.at;
}
static inline int unit_is_decoded(const struct unit *u)
{
    return !u->reason || u->reason > ANALYSIS_LAST_UNDECODED;
}
static inline void unit_stays(struct unit *u, enum analysis_reason reason, uint64_t where)
{
    if (!u->reason) {
        u->reason = (uint8_t)reason;
        u->where = (uint32_t)where;
    }
}

const struct code *code_at(const struct analyser *, uint64_t address);
struct unit *unit_at(const struct analyser *, uint64_t address);
/* The index of the first unit that ends behind an address in code; the number of units: there is none, or
 * it is no address in code. */
size_t first_unit_behind(const struct analyser *, uint64_t address);
int is_start(const struct analyser *, uint64_t address);
/* Returns 1 if `address` is in a unit and not a place that may be entered.  *unit: that unit. */
int enters_middle(const struct analyser *, uint64_t address, struct unit **unit);

/* The bytes from `at` to the end of the unit. */
const uint8_t *unit_code(const struct analyser *, const struct unit *, uint32_t at);

/* A RIP operand that is ignored: long NOPs, hints, undefined instructions. */
int rip_is_idle(const struct instruction *);
static inline int is_lea(const struct instruction *i)
{
    return instruction_is(i, 0, 0x8d);
}

/* The GOT slot that a PLT entry at `address` jumps through, or 0. */
uint32_t plt_slot(const struct analyser *, uint64_t address);

int units_make(struct analyser *);
void mark_units(struct analyser *);
void check_units(struct analyser *);
/* Records that the address is a target, from anywhere. */
void note_entered(struct analyser *, uint64_t address);
void check_places(struct analyser *);
void check_moved_frames(struct analyser *);
void decide_units(struct analyser *);
void follow_dispatches(struct analyser *);
void reach_units(struct analyser *);
void emit_units(struct analyser *);
void find_jump_tables(struct analyser *);
/* Checks a possible entry of a table.  1: it is one; 0: not; -1: its target is code that stays. */
int entry_leads(const struct analyser *, uint32_t table, uint64_t at);

void emit_moved_frames(struct analyser *);
void emit_fixed(struct analyser *);
void emit_names(struct analyser *);
/* For an object that locates: all functions keep their addresses unless only tables hold them. */
void keep_untabled(struct analyser *);
/* Returns 1 if the range is only padding. */
int is_padding(const struct code *, uint32_t start, uint32_t end);

/* ---- the file (write.c) ------------------------------------------------------------ */

/* Returns the analysis's bytes, to be freed; NULL: no memory, or no build-id (error is set). */
void *analysis_make(struct analyser *, size_t *size);
/* Writes it to folder/ab/cdef….mvld, under another name and renamed; creates missing folders.  0, or -1
 * with object.error set. */
int analysis_write(struct analyser *, const char *folder);

#endif
