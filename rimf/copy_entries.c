/* SPDX-License-Identifier: MIT
 *
 * rimf/copy_entries.c: at home, functions that can be reached by a pointer begin with a
 * jump to their copies (copies.h).
 *
 *     [f3 0f 1e fa]  e9 rel32        [endbr64]  jmp copy
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
#include "patch.h"

#include <errno.h> /* numbers only */

#define JUMP 5u
#define BATCH 2048u

static const uint8_t endbr64[4] = {0xf3, 0x0f, 0x1e, 0xfa};

struct entries {
    struct copying *c;
    struct mvld_copies_report *report;
    struct mvld_word words[BATCH];
    uint64_t expect[BATCH], replace[BATCH];
    size_t n;
};

/* One word of the patch. */
static void add(struct entries *e, uintptr_t at)
{
    const struct copying *c = e->c; /* its piece is at hand */
    int32_t distance = (int32_t)(c->distance - (intptr_t)JUMP);
    uint8_t jump[8] = {0xe9};

    memcpy(jump + 1, &distance, sizeof distance);
    e->words[e->n] = (struct mvld_word){.offset = (uint32_t)(at - c->bias), .length = JUMP};
    e->expect[e->n] = 0;
    e->replace[e->n] = 0;
    memcpy(&e->expect[e->n], (const void *)at, JUMP);
    memcpy(&e->replace[e->n], jump, JUMP);
    e->n++;
}

static int flush(struct entries *e)
{
    struct mvld_image *image = e->c->image;
    struct mvld_patch_report patched = {0};
    struct mvld_batch *batch;
    int error;

    if (!e->n)
        return 0;
    batch = rimf_patch_begin(image);
    if (batch && image->unentered)
        rimf_patch_unentered(batch);
    error = batch ? rimf_patch_add_words(batch, e->c->bias, e->words, e->expect, e->replace, e->n)
                  : -ENOMEM;
    if (!error)
        error = rimf_patch_commit(batch, &patched);
    if (batch)
        rimf_patch_end(batch);
    e->report->entries += patched.applied;
    e->report->at_home += patched.refused;
    e->n = 0;
    return error == -EDEADLK ? 0 : error; /* others may run there: they go on doing so */
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
        at = unit->flags & SIDECAR_HEAD ? head(e->c, unit) : 0;
        if (at)
            add(e, at);
        else
            e->report->at_home++;
        if (e->n == BATCH)
            error = flush(e);
    }
    return error ? error : flush(e);
}

int copy_entries(struct copying *c, struct mvld_copies_report *report)
{
    struct entries *e = rimf_heap_alloc(&c->image->heap, sizeof *e);
    int error;

    if (!e)
        return rimf_fail(c->image, ENOMEM, "%s: there is no memory for jumps to its copy",
                         c->object->public.name);
    e->c = c;
    e->report = report;
    error = rimf_depends(c->image, &c->object->public, 0);
    if (!error)
        error = add_units(e);
    rimf_heap_release(&c->image->heap, e);
    return error;
}
