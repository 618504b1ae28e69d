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
#include "rimf/x86/slot_call.h"

#include <sys/mman.h> /* numbers only */

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
    uintptr_t (*lead)(const struct emit_calls *, uintptr_t target); /* who wants to be at the one goes there; or NULL */
};

#define EMIT_WAYS_MOST (1u << 18) /* an object whose slots are farther apart is not changed */

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
 * from `away` bytes before: a call of `target`.  NULL, or why it stays.  In `site`, in both cases: what was read,
 * with its present `target`; or with `length` 0: no such call. */
const char *emit_call(struct emit_calls *, const struct analysis_call *, uintptr_t at, intptr_t away, size_t room,
                      uintptr_t target, struct site *);
/* Counts one call that stays for this reason. */
void emit_miss(struct emit_calls *, const struct way *, const char *why);
/* Counts the results, in the `now` of the object's edits. */
void emit_count(struct emit_calls *, size_t pages);

#endif
