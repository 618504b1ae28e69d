/* SPDX-License-Identifier: MIT
 *
 * rimf/realise/changes.h: the calls of an object on their way to be direct; for changes.c,
 * patches.c and overlay*.c.
 */
#ifndef RIMF_REALISE_CHANGES_H
#define RIMF_REALISE_CHANGES_H

#include "rimf/image/edits.h"
#include "rimf/store/alone.h"
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
    uint32_t other, far; /* not what the analysis says; does not reach */
};

struct changing {
    struct mvld_image *image;
    struct rimf_object *object;
    const struct analysis_call *calls; /* of its analysis, or those that an overlay has left */
    size_t n_calls;
    struct way *ways;    /* the first is that of functions of a single instruction */
    uint32_t first;      /* slot, as linked, of the second */
    size_t n_ways;
    struct missed *missed; /* as many; memory that nobody touches while `any_missed` is 0 */
    const char **whys; /* likewise: why they stay, or NULL */
    int any_missed;
    struct mvld_word *words; /* calls of all pages that are written */
    size_t n_words;
    long pages;
    size_t next; /* call to be changed */
};

static inline struct way *way_of(const struct changing *c, const struct analysis_call *call)
{
    uint32_t slot = analysis_slot(call);

    return &c->ways[slot ? (slot - c->first) / 8 + 1 : 0];
}

/* So many bytes of the object's code can be read there. */
static inline size_t code_room(const struct rimf_object *object, uintptr_t address)
{
    const struct mvld_segment *s = elf_segment_at(&object->view, address);

    return s && (~s->prot & (PROT_READ | PROT_EXEC)) == 0 ? s->end - address : 0;
}

/* The call at `site` goes through the slot, by an entry of the PLT at `target` or without one. */
static inline int goes_through(const struct changing *c, const struct site *site, uintptr_t target,
                               struct way *way, uintptr_t slot)
{
    if (site->to_slot)
        return target == slot;
    if (target != c->object->view.bias + way->entry || !way->entry) {
        if (rimf_plt_slot(&c->object->public, target) != slot)
            return 0;
        way->entry = (uint32_t)(target - c->object->view.bias);
    }
    return 1;
}

#define CHANGING_MOST (1u << 18) /* an object whose slots lie farther apart stays as it is */

/* ---- realise/changes.c, realise/patches.c -------------------------------------------- */

/* Of how many ways there must be room for these calls; sets `first`. */
size_t changing_places(struct changing *);
/* What the call shall be, as its way says; NULL, or why it stays. */
const char *change_site(struct changing *, const struct analysis_call *, struct way *, size_t room,
                        struct site *out);
/* The calls as patches, which are judged each on its own; counted.  0, or negative errno with a
 * sentence: nothing more can be changed. */
int change_patches(struct changing *);

/* ---- realise/overlay.c ------------------------------------------------------------------ */

/* Writes what overlays alone there are not yet, of these calls; it says so, or why not. */
void rimf_alone_write(struct mvld_image *, struct changing *);

/* Realises the object's edit where its code is, and counts in `now`.  0, or negative errno with
 * a sentence; -ENODATA, with the sentence in *why: it has no analysis. */
int rimf_calls_change(struct mvld_image *, struct rimf_object *, const char **why);

#endif
