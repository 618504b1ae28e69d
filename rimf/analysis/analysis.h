/* SPDX-License-Identifier: MIT
 *
 * rimf/analysis/analysis.h: proofs about one object's code, as a file.
 *
 * Disassembly takes seconds and memory that a starting program does not have.  So `mvld analyze`
 * (rimf/analyze) does it ahead of time and writes an analysis, which the process maps and checks: the
 * functions, which of them are understood, and their calls through the PLT and the GOT.
 *
 *     +--------+-----------+----------+-------+-------+------------+-------------+
 *     | header | directory | segments | units | calls | references | jump tables |
 *     +--------+-----------+----------+-------+-------+------------+-------------+
 *     | frames | frame fixes | branches | fixed | path | symbols | names |
 *     +--------+-------------+----------+-------+------+---------+-------+
 *
 * Little-endian; all addresses are 32-bit and as linked (add the object's bias); all tables are sorted by
 * address and have entries of one size.  The tables are in the order of the directory, each padded with
 * zeros to 8 bytes, with nothing between or behind them.  Each has its checksum in the directory, and the
 * header (with the directory) has its own: together they cover every byte of the file, and a reader of two
 * tables reads only those.  A reader skips tables of an unknown kind; of those below only the segments are
 * required.
 *
 * GUARANTEES.  Checksums detect damage, not malice: an analysis controls what is written into code, so it
 * must be as trusted as the code, and only files of root or of the user are used (analysis/file.c).  The
 * reader guarantees that, whatever the bytes are, entries are sorted, do not overlap, and are inside the
 * executable segments that the header lists.  The caller compares these with the object's segments, and
 * verifies the bytes of each site before writing, as for any patch.
 *
 * IDENTITY.  Analyses are found by build-id: ab/cdef….mvld for abcdef….  A build-id identifies the linker's
 * output; set-interp, strip, prelink or an editor change the file and keep it.  The analysed file is
 * recognised quickly by file_id.h.  For another file (in a container, from a backup, made where the
 * analysis came from), or if an id is not unique, the bytes decide: hashes of each executable segment, and
 * of the read-only ones, which contain relocations, symbols, jump tables and unwinding tables.
 *
 * UNITS.  A unit is a range that .eh_frame describes; code without a description belongs to none.  DECODED:
 * the start of each of its instructions is proven, and no branch, pointer or symbol of the object points
 * into the middle of one.  This suffices for changing an instruction in place.  Movable, that is reason 0:
 * it may also run at another address, with the displacements in `references` and `calls` corrected.  The
 * reason of any other unit says why it stays.  An object that cannot be moved as a whole says so in
 * `flags`; its units keep their own reasons.
 *
 * ENTRIES.  When units move, the originals stay mapped, and branches between moved code are bound to moved
 * code.  REACHED: a unit's original is also entered otherwise: through pointers, symbols, operands, by code
 * that stays.  A wrong REACHED, or a missing one, is only slower: what enters an original runs it.  HEAD
 * must be right: the first five bytes of the original, behind an endbr64 if there is one, may be
 * overwritten, since nothing in originals points behind the first of them.
 *
 * REMOVAL.  HELD: a unit is referred to by something that no table lists: pointers, entry points, code that stays
 * or is not understood, entries of tables that others use.  It must be right.  A unit without it is referred to
 * only by the references, branches and calls listed here, by units joined with it, and by names of the dynamic
 * symbol table.
 *
 * DISTANCES.  Movable units of one object may move by different distances.  JOINED: a unit and the next one
 * in the table must not: control falls from one into the other, a branch of one byte crosses, or an
 * exception of one lands in the other.  If units move by different distances, the displacements in
 * `branches` must be corrected, too.
 *
 * ADDRESSES.  If a function's canonical address becomes that of its moved code, it must be changed
 * everywhere: in relocated words, and in the operands (ANALYSIS_TO_CODE) of movable code, moved and
 * original.  FIXED_CODE lists code whose address other code has, or might have, and code that does not
 * move: their canonical addresses must be the original ones.  The list must be right.
 *
 * NAMES.  Symbols and names are for debuggers of moved code (symfile.h), and name functions for passes.  Their
 * checksums are checked with the whole file only, and their entries where they are read.
 */
#ifndef RIMF_ANALYSIS_H
#define RIMF_ANALYSIS_H

#include "rimf/base/base.h"
#include "rimf/base/file_id.h"

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

struct rimf_sys;

#define ANALYSIS_MAGIC "MVLDside"
#define ANALYSIS_VERSION 10u   /* of the format, and of what is proven; another one is not read */
#define ANALYSER_VERSION 19u   /* of `mvld analyze`; counts up when results change */
#define ANALYSIS_BUILD_ID_MAX 64u
#define ANALYSIS_TABLES_MAX 32u
#define ANALYSIS_SIZE_MAX (1ul << 30)
#define ANALYSIS_HEAD_SIZE 5u    /* e9 rel32: jmp to the moved code */
#define ANALYSIS_SYMBOLS_IN 1u   /* st_shndx */
#define ANALYSIS_SYSTEM_FOLDER "/var/cache/mvld/analysis"

enum analysis_kind { /* of a table */
    ANALYSIS_SEGMENTS = 1,
    ANALYSIS_UNITS,
    ANALYSIS_CALLS,
    ANALYSIS_REFERENCES,
    ANALYSIS_JUMP_TABLES,
    ANALYSIS_FRAMES,
    ANALYSIS_FRAME_FIXES,
    ANALYSIS_BRANCHES,
    ANALYSIS_FIXED_CODE,
    ANALYSIS_GAP,     /* of earlier analysers: zeros */
    ANALYSIS_SYMBOLS, /* Elf64_Sym, the first empty: functions in movable units; values count from the start
                       * of the first such unit, sections are ANALYSIS_SYMBOLS_IN */
    ANALYSIS_NAMES,   /* bytes: their strings */
    ANALYSIS_PATH,    /* bytes: path of the file, NUL-terminated; for people, and for removing analyses of
                       * missing files */
    ANALYSIS_KINDS
};
#define ANALYSIS_WANT(kind) (1u << (kind))
#define ANALYSIS_WANT_WHOLE (~0u) /* every byte is covered by a checksum */
/* All tables that a process reads: not those for debuggers. */
#define ANALYSIS_WANT_ALL (~(ANALYSIS_WANT(ANALYSIS_SYMBOLS) | ANALYSIS_WANT(ANALYSIS_NAMES)))

struct analysis_table {
    uint32_t kind, entry_size;
    uint64_t offset, count;
    uint64_t checksum; /* of the padded table */
};

enum analysis_flags {          /* of an object none of whose units can move */
    ANALYSIS_FIXED = 1 << 0,   /* linked at a fixed address (ET_EXEC) */
    ANALYSIS_TEXTREL = 1 << 1, /* relocations change its code; such units are not decoded */
    ANALYSIS_RESTARTS = 1 << 2, /* it has restartable sequences (rseq), identified by their address */
    ANALYSIS_PROFILED = 1 << 3, /* it, a profiler or a sanitizer may identify its code by address */
    ANALYSIS_LOOKED_UP = 1 << 4, /* a run time looks up return addresses of its code in tables; no calls are
                                  * listed, since it may read the code, too */
    ANALYSIS_MAPS = 1 << 5, /* it reads /proc/self/maps, perhaps to find its own file from an address of its code:
                             * no calls are listed, because an overlay has another path */
    ANALYSIS_FLAGS = 0x3f
};

struct analysis_header {
    char magic[8];
    uint32_t version, header_size; /* with the directory */
    uint64_t size;                 /* of the analysis */
    uint64_t checksum;             /* of header and directory, with 0 in this field */
    uint32_t analyser;             /* version of the analyser; newer ones prove more */
    uint32_t flags;
    uint32_t build_id_size, n_tables;
    uint8_t build_id[ANALYSIS_BUILD_ID_MAX]; /* padded with zeros */
    struct file_id identity;
    uint32_t frames_start, frames_size; /* .eh_frame, with its end mark; 0: none */
    uint64_t constants_hash; /* of the read-only segments: analysis_is_constants */
    /* the directory follows: n_tables of struct analysis_table */
};

/* An executable PT_LOAD: only the part that is in the file. */
struct analysis_segment {
    uint32_t start, size;
    uint64_t hash; /* rimf_hash of them */
};

enum analysis_reason {
    ANALYSIS_PROVEN = 0,    /* movable */
    ANALYSIS_UNDECODABLE,   /* bytes that are not an instruction */
    ANALYSIS_IMPLAUSIBLE,   /* an instruction that no compiler emits */
    ANALYSIS_OVERRUN,       /* its last instruction does not end at its end */
    ANALYSIS_ADDRESS_SIZE,  /* a RIP operand of 32 bits */
    ANALYSIS_RELOCATED,     /* a relocation changes its bytes */
    ANALYSIS_ENTERED,       /* a branch targets the middle of an instruction */
    ANALYSIS_POINTED,       /* a pointer, a symbol, or a landing pad does */
    ANALYSIS_READ,          /* its bytes are read as data */
    ANALYSIS_OUTSIDE,       /* a RIP operand outside the object */
    ANALYSIS_BASE,          /* its own address is an operand (large code model) */
    ANALYSIS_LABEL_TAKEN,   /* other code takes an address inside it */
    ANALYSIS_TAKES_LABEL,   /* it takes such an address */
    ANALYSIS_LAST_UNDECODED = ANALYSIS_TAKES_LABEL,
    ANALYSIS_FALLS,         /* runs off its end into code that stays, or into none */
    ANALYSIS_SHORT_BRANCH,  /* a branch of one byte into code that stays */
    ANALYSIS_FRAME_ODD,     /* its unwinding description cannot describe moved code */
    ANALYSIS_KEPT,          /* data contains an address inside it that is no label of its own jumps */
    ANALYSIS_BOUNDED,       /* code may use the bounds of its section */
    ANALYSIS_REASONS
};

/* As a sentence (analysis/analysis.c). */
const char *analysis_reason_words(enum analysis_reason);

enum analysis_unit_flags {
    ANALYSIS_DECODED = 1 << 0, /* with reason 0 and those behind LAST_UNDECODED */
    ANALYSIS_REACHED = 1 << 1, /* movable, and entered otherwise than by movable code */
    ANALYSIS_HEAD = 1 << 2,    /* REACHED, and a jump may be written over its first five
                               * bytes of the original, those behind an endbr64 */
    ANALYSIS_JOINED = 1 << 3,  /* with any reason: moves together with the next unit, if both move */
    ANALYSIS_HELD = 1 << 4     /* movable, and its address may be held, or a place in it entered, by what no
                                * table lists */
};

struct analysis_unit {
    uint32_t start, size;
    uint8_t reason, flags; /* enum analysis_reason; enum analysis_unit_flags */
    uint16_t zero;
};

/* Calls and jumps through GOT slots, in decoded units.  `address` is that of the opcode byte: prefixes
 * before it (bnd, notrack) have no effect.  The PLT entry of a rel32 was decoded: it jumps through that
 * slot. */
enum analysis_call_kind {
    ANALYSIS_CALL_PLT = 1, /* e8 rel32        call entry */
    ANALYSIS_JMP_PLT,      /* e9 rel32        jmp  entry */
    ANALYSIS_JCC_PLT,      /* 0f 8x rel32     jcc  entry */
    ANALYSIS_CALL_SLOT,    /* ff 15 rel32     call *slot(%rip) */
    ANALYSIS_JMP_SLOT,     /* ff 25 rel32     jmp  *slot(%rip) */
    ANALYSIS_CALL_KINDS
};

struct analysis_call {
    uint32_t address;
    uint32_t slot_and_kind; /* slots are 8-aligned: the low three bits are the kind */
};

static inline uint32_t analysis_slot(const struct analysis_call *call)
{
    return call->slot_and_kind & ~7u;
}
static inline enum analysis_call_kind analysis_call_kind(const struct analysis_call *call)
{
    return (enum analysis_call_kind)(call->slot_and_kind & 7u);
}
/* From the opcode to the end: 5 or 6 bytes. */
static inline uint32_t analysis_call_length(const struct analysis_call *call)
{
    enum analysis_call_kind kind = analysis_call_kind(call);

    return kind == ANALYSIS_CALL_PLT || kind == ANALYSIS_JMP_PLT ? 5 : 6;
}

/* The displacements in movable units that change if the unit moves; those of `calls` are not repeated.  An
 * unlisted displacement is a branch from movable code to movable code: inside one unit, unless `branches`
 * lists it. */
enum analysis_reference_kind {
    ANALYSIS_TO_DATA = 1,   /* writable memory: data, bss, GOT */
    ANALYSIS_TO_RODATA,     /* read-only data */
    ANALYSIS_TO_JUMP_TABLE, /* the start of one of `jump tables` */
    ANALYSIS_TO_ORIGINAL,       /* operand: code that stays, a PLT entry */
    ANALYSIS_BRANCH_ORIGINAL,   /* call, jmp, jcc rel32 to such code */
    ANALYSIS_TO_CODE,       /* operand: the start of a movable unit (lea) */
    ANALYSIS_REFERENCE_KINDS
};

struct analysis_reference {
    uint32_t address; /* of the four-byte displacement */
    uint8_t kind;
    uint8_t rest;     /* bytes between the displacement and the end of the instruction */
    uint16_t zero;
};

/* Offsets of four bytes from the table's start to instructions of movable units. */
struct analysis_jump_table {
    uint32_t address, count;
};

/* The FDE of a movable unit's code; it begins inside [frames_start, frames_start + frames_size), and its
 * range is inside the unit. */
struct analysis_frame {
    uint32_t start, fde; /* of the range; address of the record */
};

/* Four-byte distances from their own address, inside .eh_frame, which change if the bytes move.  There is
 * one of kind ANALYSIS_FRAME_CODE at each fde + 8.  Records without one do not describe moved code. */
enum analysis_frame_fix_kind {
    ANALYSIS_FRAME_CODE = 1, /* to code of a movable unit: the start of a range */
    ANALYSIS_FRAME_OTHER,    /* to things that stay: code, exception tables, personalities, the words with
                              * their addresses */
    ANALYSIS_FRAME_FIX_KINDS
};

struct analysis_frame_fix {
    uint32_t address;
    uint8_t kind;
    uint8_t zero[3];
};

/* The displacement, four bytes at the end of the instruction, of a call, jmp, or jcc from one
 * movable unit into another. */
struct analysis_branch {
    uint32_t address;
};

/* Code whose canonical addresses are the original ones: code that does not move (except padding between
 * functions), and movable units whose address such code takes. */
struct analysis_fixed {
    uint32_t start, size;
};

/* ---- reading -------------------------------------------------------------- */

/* A checked view of the bytes; tables that were not requested are empty. */
struct analysis {
    const struct analysis_header *header;
    const struct analysis_segment *segments;
    const struct analysis_unit *units;
    const struct analysis_call *calls;
    const struct analysis_reference *references;
    const struct analysis_jump_table *jump_tables;
    const struct analysis_frame *frames; /* by start */
    const struct analysis_frame_fix *frame_fixes;
    const struct analysis_branch *branches;
    const struct analysis_fixed *fixed;
    size_t n_segments, n_units, n_calls, n_references, n_jump_tables, n_frames, n_frame_fixes,
        n_branches, n_fixed;
    uint32_t opened; /* ANALYSIS_WANT of the tables that were checked */
};

/* Checks header, directory, segments, and the tables in `wanted` (ANALYSIS_WANT, or-ed; references, frames
 * and branches include the units, frames their fixes, too; calls are compared with units if both are
 * opened, else with segments).  `bytes` is 8-aligned and outlives the view.  0, or -EINVAL with a static
 * sentence in *why and an empty view. */
int analysis_open(struct analysis *, const void *bytes, size_t size, uint32_t wanted,
                 const char **why);

/* Checks tables in `wanted` that are not open yet.  As analysis_open. */
int analysis_open_more(struct analysis *, uint32_t wanted, const char **why);

/* The first of `n` entries, which begin with ascending addresses, at or behind `address`. */
size_t analysis_first_from(const void *entries, size_t n, size_t stride, uint32_t address);
/* The same for a table of the view: `references`, `frames` (by their starts) … */
#define ANALYSIS_FROM(s, table, address) \
    analysis_first_from((s)->table, (s)->n_##table, sizeof *(s)->table, address)
/* The unit that contains `address`, or NULL. */
const struct analysis_unit *analysis_unit_at(const struct analysis *, uint32_t address);

/* The start of the first movable unit, or UINT32_MAX. */
uint32_t analysis_first_movable(const struct analysis *);
/* Symbols, whose entries are unchecked, and their names, which end with a NUL.  0: there are none. */
struct analysis_symbols {
    const Elf64_Sym *list;
    const char *names;
    size_t n, names_size;
    uint32_t first; /* base of the values, as linked */
};
int analysis_symbols(const struct analysis *, struct analysis_symbols *);
/* The path of the analysed file, or NULL: not recorded. */
const char *analysis_path_of(const struct analysis *);
/* A key that distinguishes analyses of an object, also of the same file. */
#define ANALYSIS_LACKS 1u /* not a key: no usable analysis was found */
static inline uint32_t analysis_key(const struct analysis_header *header)
{
    return (uint32_t)header->checksum | 2u;
}
/* Returns 1 if the analysis is of an object with this build-id. */
int analysis_is_of(const struct analysis *, const void *build_id, size_t size);

/* Returns 1 for the segments of `constants_hash`, which mixes their hashes in order. */
static inline int analysis_is_constants(const Elf64_Phdr *ph)
{
    return ph->p_type == PT_LOAD && !(ph->p_flags & (PF_W | PF_X)) && ph->p_filesz && ph->p_memsz;
}
/* The value for `checksum`; the header has `header_size` bytes. */
uint64_t analysis_header_checksum(const struct analysis_header *);

/* ---- files (analysis/file.c) ------------------------------------------------ */

/* A folder of analyses, and whose files are trusted there.  Never group or world-writable ones, never
 * through a symbolic link in the last component. */
struct analysis_place {
    const char *folder;
    uint32_t user; /* files of this user, besides root's */
};

struct analysis_file {
    struct analysis view;
    void *map;
    size_t size;
};

/* Writes folder/ab/cdef….mvld.  Returns the length, or 0 if it does not fit. */
size_t analysis_path(char *to, size_t size, const char *folder, const void *build_id,
                    size_t build_id_size);

/* Maps the analysis of the newest analyser among the usable ones, and of several the first.  Folders behind
 * one that is up to date (ANALYSER_VERSION) are not searched.  0; -ENOENT: there is none; other errors with
 * a static sentence in *why.  After an error, nothing is mapped. */
int analysis_find(struct analysis_file *, const struct rimf_sys *, const struct analysis_place *,
                 size_t n_places, const void *build_id, size_t build_id_size, uint32_t wanted,
                 const char **why);
/* The same for one file with any build-id. */
int analysis_map(struct analysis_file *, const struct rimf_sys *, const char *path, uint32_t user,
                uint32_t wanted, const char **why);
void analysis_unmap(struct analysis_file *, const struct rimf_sys *);

/* analysis/check.c, for analysis.c.  Checks the view's table of that kind: NULL, or a static sentence.  The tables
 * that it is compared with have been checked: segments before all; units before references, frames and branches,
 * and before calls, if units are opened at all. */
const char *analysis_check(const struct analysis *, uint32_t kind);

#endif
