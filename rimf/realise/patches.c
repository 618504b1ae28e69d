/* SPDX-License-Identifier: MIT
 *
 * rimf/realise/patches.c: makes the calls of an object by patches, if they cannot be changed together
 * (realise/changes.c).
 *
 * Each patch takes 24 bytes of memory until it is committed, each commit a dozen system calls.
 */
#include "rimf/realise/changes.h"

#include "rimf/base/base.h"
#include "rimf/moved/moved.h"
#include "rimf/patch/patch.h"

#include <errno.h> /* numbers only */

#define BATCH 2048u
#define AHEAD 8u /* code that has not run yet is in distant caches */

/* Waiting patches; too much for the stack. */
struct waiting {
    struct mvld_word words[BATCH];
    uintptr_t at[BATCH];
    uint64_t old[BATCH], made[BATCH];
    const struct way *ways[BATCH];
    size_t n;
    int moved; /* some of the code has moved */
};

/* Moved fragments are in any order, and far from the object: their patches are added one by one. */
static int add_all(const struct emit_calls *c, struct waiting *w, struct mvld_batch *batch)
{
    int error = batch ? 0 : -ENOMEM;

    for (size_t i = 0; i < w->n && !error; i++) {
        w->words[i].offset = (uint32_t)(w->at[i] - c->object->view.bias);
        if (w->moved)
            error = rimf_patch_add(batch, w->at[i], &w->old[i], &w->made[i], w->words[i].length);
    }
    if (!error && !w->moved)
        error = rimf_patch_add_words(batch, c->object->view.bias, w->words, w->old, w->made, w->n);
    return error ? rimf_fail(c->image, ENOMEM, "out of memory for patches") : 0;
}

static void miss_at(struct emit_calls *c, const struct waiting *w, const struct mvld_patch *patch)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->at[i] - patch->address < patch->length)
            emit_miss(c, w->ways[i], edit_other);
}

/* The engine lists words only if it refused some. */
static int flush(struct emit_calls *c, struct waiting *w)
{
    struct mvld_batch *batch;
    int error;

    if (!w->n)
        return 0;
    batch = rimf_patch_begin(c->image);
    error = add_all(c, w, batch);
    if (!error) {
        error = rimf_patch_commit(batch, NULL);
        /* The same would happen for every other object. */
        error = error == -EPERM || error == -ENOMEM
                    ? rimf_fail(c->image, -error, "no code could be changed: %s", c->image->error) : 0;
    }
    for (size_t i = 0; i < w->n && error; i++)
        emit_miss(c, w->ways[i], edit_other);
    for (size_t i = 0; !error && i < rimf_patch_count(batch); i++)
        if (rimf_patch_at(batch, i)->result)
            miss_at(c, w, rimf_patch_at(batch, i));
    rimf_patch_end(batch);
    w->n = 0;
    return error;
}

/* A site that already has the wanted bytes needs no patch. */
static int add(struct emit_calls *c, struct waiting *w, const struct way *way, const struct site *site)
{
    if (site->old == site->made)
        return 0;
    w->words[w->n].length = site->length;
    w->ways[w->n] = way;
    w->at[w->n] = site->address;
    w->old[w->n] = site->old;
    w->made[w->n++] = site->made;
    return w->n == BATCH ? flush(c, w) : 0;
}

static int patch_call(struct emit_calls *c, struct waiting *w, const struct analysis_call *call)
{
    uintptr_t at = c->object->view.bias + call->address, moved = w->moved ? rimf_moved_to(c->image, at) : 0;
    const struct way *way = way_of(c, call);
    struct site site;
    const char *why;

    if (!way->target)
        return 0;
    why = emit_call(c, call, moved ? moved : at, 0, moved ? SITE_MAX : code_room(c->object, at), way->target, &site);
    if (!why)
        return add(c, w, way, &site);
    emit_miss(c, way, why);
    return 0;
}

int change_patches(struct emit_calls *c)
{
    struct waiting *w = rimf_heap_alloc(&c->image->heap, sizeof *w);
    int error = 0;

    if (!w)
        return rimf_fail(c->image, ENOMEM, "out of memory for patches");
    w->moved = rimf_has_moved(c->image, c->object);
    for (size_t i = 0; i < c->n_calls && !error; i++) {
        if (i + AHEAD < c->n_calls)
            __builtin_prefetch((const void *)(c->object->view.bias + c->calls[i + AHEAD].address));
        error = patch_call(c, w, &c->calls[i]);
    }
    error = error ? error : flush(c, w);
    rimf_heap_release(&c->image->heap, w);
    return error;
}
