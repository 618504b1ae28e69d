/* SPDX-License-Identifier: MIT
 *
 * rimf/emit/calls.h: makes the calls of one object through slots as passes want, for either copy of its code:
 *
 *     patch     this process, where the object was mapped, or where its code moved before    realise/calls.c
 *     moved     a copy that is being made                                                    moved/code.c
 *
 * For a snapshot no call is made a second time: store/writer.c writes the pages that `patch`
 * changed.
 *
 * The wanted target is queried once for each slot.  Each call is read, compared with the analysis, or with
 * the result of an earlier emission, and made: by one function, whatever the bytes are for.
 *
 * Slots are adjacent, so the data about them is an array by address.
 */
#ifndef RIMF_EMIT_CALLS_H
#define RIMF_EMIT_CALLS_H

#include "rimf/image/edits.h"

#include <sys/mman.h> /* numbers only */

/* ---- one call, before and after it becomes direct ---------------------------------------
 *
 *     e8 rel32         call entry           e8 rel32         call target
 *     e9 rel32         jmp  entry           e9 rel32         jmp  target
 *     0f 8x rel32      jcc  entry           0f 8x rel32      jcc  target
 *     ff 15 rel32      call *slot(%rip)     67 e8 rel32      addr32 call target
 *     ff 25 rel32      jmp  *slot(%rip)     e9 rel32 90      jmp  target; (nop)
 *
 * Each is one instruction before and after, so a thread is before or behind it while it is changed.
 * 67 has no effect on a call; linkers write the same.  The nop is never reached.  Prefixes in front
 * (bnd, notrack) mean the same to the new instruction; the analyser lists no site behind 66, which
 * would change its meaning.
 *
 * In a header, because this is done some hundred thousand times at a start.
 */

#define SITE_MAX 6u

struct site {
    uintptr_t address;
    uint8_t length;
    uint64_t old, made; /* the bytes, the first in the lowest byte; then zeros */
    uintptr_t target;    /* a PLT entry, or a slot */
    int to_slot;     /* the latter */
};

static inline int site_is(uint64_t code, enum mvld_reference_kind kind)
{
    switch (kind) {
    case MVLD_REFERENCE_CALL_PLT:
        return (code & 0xff) == 0xe8;
    case MVLD_REFERENCE_JUMP_PLT:
        return (code & 0xff) == 0xe9;
    case MVLD_REFERENCE_JCC_PLT:
        return (code & 0xf0ff) == 0x800f;
    case MVLD_REFERENCE_CALL_SLOT:
        return (code & 0xffff) == 0x15ff;
    case MVLD_REFERENCE_JUMP_SLOT:
        return (code & 0xffff) == 0x25ff;
    default: /* through no slot */
        return 0;
    }
}

/* Reads the instruction at `address`, of which `room` bytes may be read.  0 if it is not of this
 * kind. */
static inline int site_read(struct site *site, enum mvld_reference_kind kind, uintptr_t address,
                            size_t room)
{
    const uint8_t *code = (const uint8_t *)address;
    unsigned at; /* of the distance */
    uint32_t head, distance;

    site->address = address;
    site->length = kind == MVLD_REFERENCE_CALL_PLT || kind == MVLD_REFERENCE_JUMP_PLT ? 5 : 6;
    site->to_slot = kind == MVLD_REFERENCE_CALL_SLOT || kind == MVLD_REFERENCE_JUMP_SLOT;
    if (room < site->length)
        return 0;
    at = site->length - 4u;
    memcpy(&head, code, sizeof head);
    memcpy(&distance, code + at, sizeof distance);
    site->old = (head & ((1u << 8 * at) - 1)) | (uint64_t)distance << 8 * at;
    site->target = address + site->length + (uintptr_t)(intptr_t)(int32_t)distance;
    return site_is(site->old, kind);
}

/* The same for a call that a pass may have made direct: then to_slot is 0. */
static inline int site_read_any(struct site *site, enum mvld_reference_kind kind, uintptr_t address, size_t room)
{
    const uint8_t *at = (const uint8_t *)address;

    if (site_read(site, kind, address, room))
        return 1;
    if (!site->to_slot || room < SITE_MAX)
        return 0;
    site->to_slot = 0;
    return kind == MVLD_REFERENCE_CALL_SLOT
               ? at[0] == 0x67 && at[1] == 0xe8
               : at[5] == 0x90 && site_read(site, MVLD_REFERENCE_JUMP_PLT, address, room);
}

/* Makes the instruction that calls `target`.  0 if that is out of reach. */
static inline int site_make(struct site *site, uintptr_t target)
{
    unsigned at = site->length - 4u; /* of the distance */
    uint64_t opcode = site->old & ((1u << 8 * at) - 1), behind = 0;
    intptr_t distance;

    if (site->to_slot && opcode == 0x15ff) { /* call *slot */
        opcode = 0xe867;
    } else if (site->to_slot) { /* jmp *slot */
        opcode = 0xe9;
        at = 1;
        behind = 0x90;
    }
    distance = (intptr_t)(target - (site->address + at + 4));
    site->made = opcode | (uint64_t)(uint32_t)distance << 8 * at | behind << 40;
    return (int32_t)distance == distance;
}

/* ---- all of an object ----------------------------------------------------------------- */

/* For the calls through one slot.  Each call reads it, in no order: four of them fit a cache line. */
struct way {
    uintptr_t target;      /* 0: they stay */
    uint32_t entry;        /* of the PLT, as linked, known to jump through the slot; 0: none */
    uint32_t calls : 31;
    uint32_t all_far : 1;
};

/* Calls that were to become direct, and did not. */
struct missed {
    uint32_t other, far; /* not as the analysis says, or refused; out of reach */
};

struct emit_calls {
    struct mvld_image *image;
    struct rimf_object *object;
    struct rimf_edit *edits; /* the first valid one */
    const struct analysis_call *calls; /* of its analysis */
    size_t n_calls;
    struct way *ways;
    uint32_t first;        /* slot, as linked, of the first */
    size_t n_ways;
    struct missed *missed; /* as many; memory that is not touched while `any_missed` is 0 */
    const char **whys;     /* likewise: why they stay, or NULL */
    uint32_t *by;          /* likewise: which of the object's edits want the target; with one edit, not
                            * written */
    int any_missed;
    uintptr_t (*runs_at)(struct mvld_image *, uintptr_t target); /* where a wanted target runs; NULL: there */
};

/* The calls of an object whose slots are farther apart (4 MiB) stay: lld puts one page of at most 2 MiB between
 * those that are bound before the start and the others. */
#define EMIT_WAYS_MOST (1u << 19)

static inline struct way *way_of(const struct emit_calls *c, const struct analysis_call *call)
{
    return &c->ways[(analysis_slot(call) - c->first) / 8];
}

static inline uintptr_t way_slot(const struct emit_calls *c, size_t way)
{
    return c->object->view.bias + c->first + 8 * way;
}

/* The number of readable bytes of the object's code from there. */
static inline size_t code_room(const struct rimf_object *object, uintptr_t address)
{
    const struct mvld_segment *s = elf_segment_at(&object->view, address);

    return s && (~s->prot & (PROT_READ | PROT_EXEC)) == 0 ? s->end - address : 0;
}

/* The number of ways needed for these calls; sets `first`. */
size_t emit_calls_places(struct emit_calls *);
/* Queries the wanted targets, for code that moves, or else for code in place.  0; -ENODATA with a sentence in
 * *why; -ENOMEM with one.  Close in any case. */
int emit_calls_open(struct emit_calls *, int in_moved, const char **why);
void emit_calls_close(struct emit_calls *);

/* Makes the new form of the call at `at`, of which `room` bytes are readable, and whose displacement counts
 * from `away` bytes before: a call of its way's target.  NULL, or why it stays.  In `site`, in both cases: what was
 * read, with its present `target`; or with `length` 0: no such call. */
const char *emit_call(struct emit_calls *, const struct analysis_call *, uintptr_t at, intptr_t away, size_t room,
                      struct way *, struct site *);
/* Counts one call that stays for this reason. */
void emit_miss(struct emit_calls *, const struct way *, const char *why);
/* Counts the results, in the `now` of the object's edits. */
void emit_count(struct emit_calls *, size_t pages);

#endif
