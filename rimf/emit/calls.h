/* SPDX-License-Identifier: MIT
 *
 * rimf/emit/calls.h: the calls of one object through slots, as they are wanted, wherever the code lies that has them:
 *
 *     patch     this process, where the object was mapped, or where its code moved before    realise/changes.c
 *     moved     a copy that is being made                                                    moved/calls.c
 *
 * What `patch` makes of pages, store/write_overlay.c writes into files: nothing is made a second time for a snapshot.
 *
 * Where calls through a slot are wanted is asked once a slot.  Each call is read, compared with what the analysis
 * says, or with what it was made by an earlier emission, and made: one function, whatever becomes of the bytes.
 *
 * Slots lie side by side, so what is known of them lies in an array by their place.
 */
#ifndef RIMF_EMIT_CALLS_H
#define RIMF_EMIT_CALLS_H

#include "rimf/image/edits.h"
#include "rimf/x86/slot_call.h"

#include <sys/mman.h> /* numbers only */

/* Of the calls through one slot.  Each call looks at it, in no order: four of them in a line of the cache. */
struct way {
    uintptr_t target;      /* 0: they stay */
    uint32_t entry;        /* of the PLT, as linked, known to jump through the slot; 0: none is */
    uint32_t calls : 31;
    uint32_t all_far : 1;
};

/* Of those that were to become direct: what did not. */
struct missed {
    uint32_t other, far; /* not what the analysis says, or refused; does not reach */
};

struct emit_calls {
    struct mvld_image *image;
    struct rimf_object *object;
    struct rimf_edit *edits; /* the first that counts */
    const struct analysis_call *calls; /* of its analysis, or those that remain */
    size_t n_calls;
    struct way *ways;      /* the first is that of functions of a single instruction */
    uint32_t first;        /* slot, as linked, of the second */
    size_t n_ways;
    struct missed *missed; /* as many; memory that nobody touches while `any_missed` is 0 */
    const char **whys;     /* likewise: why they stay, or NULL */
    uint32_t *by;          /* likewise: which of the object's edits want them there; of one edit, not written */
    int any_missed;
    uintptr_t (*lead)(const struct emit_calls *, uintptr_t target); /* who wants to be at the one goes there; or NULL */
};

#define EMIT_WAYS_MOST (1u << 18) /* an object whose slots lie farther apart stays as it is */

static inline struct way *way_of(const struct emit_calls *c, const struct analysis_call *call)
{
    uint32_t slot = analysis_slot(call);

    return &c->ways[slot ? (slot - c->first) / 8 + 1 : 0];
}

static inline uintptr_t way_slot(const struct emit_calls *c, size_t way)
{
    return way ? c->object->view.bias + c->first + 8 * (way - 1) : 0;
}

/* So many bytes of the object's code can be read there. */
static inline size_t code_room(const struct rimf_object *object, uintptr_t address)
{
    const struct mvld_segment *s = elf_segment_at(&object->view, address);

    return s && (~s->prot & (PROT_READ | PROT_EXEC)) == 0 ? s->end - address : 0;
}

/* Of how many ways there must be memory for these calls; sets `first`. */
size_t emit_calls_places(struct emit_calls *);
/* Asks where the calls are wanted, in code that moves, or else where they stand.  0; -ENODATA with a sentence in
 * *why; -ENOMEM with one.  Closed either way. */
int emit_calls_open(struct emit_calls *, int in_moved, const char **why);
void emit_calls_close(struct emit_calls *);

/* What the call is to be that lies at `at`, of which `room` bytes can be read, and whose displacement counts from
 * `away` bytes before: it leads to `target`, where it is one through a slot.  NULL, or why it stays.  In `site`,
 * whichever: what was read, with the `target` that it has by now, 0 where it is an instruction that stands for a call;
 * or with `length` 0: no such call. */
const char *emit_call(struct emit_calls *, const struct analysis_call *, uintptr_t at, intptr_t away, size_t room,
                      uintptr_t target, struct site *);
/* One call stays for this reason. */
void emit_miss(struct emit_calls *, const struct way *, const char *why);
/* Counts what became of the calls, in the `now` of the object's edits. */
void emit_count(struct emit_calls *, size_t pages);

#endif
