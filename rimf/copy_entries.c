/* SPDX-License-Identifier: MIT
 *
 * rimf/copy_entries.c: at home, functions that can be reached by a pointer begin with a
 * jump to their copies (copies.h).
 *
 *     [f3 0f 1e fa]  e9 rel32        [endbr64]  jmp copy
 *
 * A JUMP COSTS A PAGE: home's is written, and private from then on.  Where the function's address is
 * that of its copy, hardly anybody comes here any more (copies.h), and who does runs code that is
 * right.  So where the calls of all objects were led past the PLT (image_calls.c), such a
 * function has none.  Else the first call through a slot that is bound lazily leads home, and all
 * later ones: then every function that may be entered has its jump; and so in what is frozen,
 * whose pages all processes share.
 *
 * The five bytes may cut an instruction in two: the analysis says that nobody enters them
 * but at the first (SIDECAR_HEAD).  A function for which it cannot say so runs at home
 * when it is called by a pointer, and in the copy when copies call it.
 *
 * Nor may anybody stand between two instructions that the jump is written over.  At start
 * nothing runs; what comes by dlopen has not run yet, while other threads run elsewhere
 * (rimf_image_set_unentered).  Where that is not certain, the patch engine refuses.
 */
#include "copies.h"

#include "base.h"
#include "image_private.h"

#include <errno.h> /* numbers only */

#define JUMP 5u

static const uint8_t endbr64[4] = {0xf3, 0x0f, 0x1e, 0xfa};

struct entries {
    struct copying *c;
    struct mvld_copies_report *report;
    struct copy_words *words;
    int few; /* only those that addresses lead to */
};

static int add(struct entries *e, uintptr_t at)
{
    int32_t distance = (int32_t)(e->c->distance - (intptr_t)JUMP);
    uint8_t jump[JUMP] = {0xe9};

    memcpy(jump + 1, &distance, sizeof distance);
    return copy_words_add(e->words, at, jump, sizeof jump);
}

/* Where the jump may stand, or 0. */
static uintptr_t head(const struct copying *c, const struct sidecar_unit *unit)
{
    uintptr_t at = c->bias + unit->start;
    size_t size = unit->size;

    if (size >= sizeof endbr64 && memcmp((const void *)at, endbr64, sizeof endbr64) == 0) {
        at += sizeof endbr64;
        size -= sizeof endbr64;
    }
    return size >= JUMP ? at : 0;
}

static int is_worth(const struct entries *e, uintptr_t unit)
{
    return !e->few || copying_identity(e->c, unit) == unit;
}

static int add_units(struct entries *e)
{
    const struct sidecar *s = e->c->analysis;
    int error = 0;

    for (size_t i = 0; i < s->n_units && !error; i++) {
        const struct sidecar_unit *unit = &s->units[i];
        uintptr_t at;

        if (unit->reason != SIDECAR_PROVEN || !copying_at(e->c, e->c->bias + unit->start))
            continue;
        e->report->units++;
        if (!(unit->flags & SIDECAR_REACHED) ||
            rimf_is_kept_home(e->c->image, e->c->bias + unit->start))
            continue;
        at = unit->flags & SIDECAR_HEAD && is_worth(e, e->c->bias + unit->start)
                 ? head(e->c, unit)
                 : 0;
        if (at)
            error = add(e, at);
        else
            e->report->at_home++;
        error = error == -EDEADLK ? 0 : error; /* others may run there: they go on doing so */
    }
    if (!error)
        error = copy_words_flush(e->words);
    return error == -EDEADLK ? 0 : error;
}

int copy_entries(struct copying *c, struct mvld_copies_report *report)
{
    struct entries e = {.c = c, .report = report, .words = copy_words_begin(c),
                        .few = c->image->calls != NULL};
    int error;

    if (!e.words)
        return -ENOMEM;
    error = rimf_depends(c->image, &c->object->public, 0);
    if (!error)
        error = add_units(&e);
    report->entries += e.words->applied;
    report->at_home += e.words->refused;
    copy_words_end(e.words);
    return error;
}
