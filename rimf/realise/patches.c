/* SPDX-License-Identifier: MIT
 *
 * rimf/realise/patches.c: the calls of an object as patches, where they cannot be changed
 * together (realise/changes.c).
 *
 * Each patch takes 24 bytes of memory until it is committed, each commit a dozen system calls.
 */
#include "rimf/realise/changes.h"

#include "rimf/base/base.h"
#include "rimf/moved/moved.h"
#include "rimf/patch/patch.h"

#include <errno.h> /* numbers only */

#define BATCH 2048u
#define AHEAD 8u /* code that nobody runs yet lies in distant caches */

/* Patches that wait, by address; too much for the stack. */
struct waiting {
    struct mvld_word words[BATCH];
    uint64_t old[BATCH], made[BATCH];
    size_t n;
    uint32_t last_page; /* from 1, as linked: that was counted */
};

static const char *refusal(int result)
{
    switch (result) {
    case -ESTALE:
        return "the patch engine found other bytes";
    case -EFAULT:
        return "the site is not in private executable memory";
    default:
        return "the patch engine refused the site";
    }
}

/* Sites ascend. */
static void count_page(struct changing *c, struct waiting *w, uintptr_t address)
{
    uint32_t page = (uint32_t)((address - c->object->view.bias) / RIMF_PAGE) + 1;

    if (page > w->last_page) {
        w->last_page = page;
        c->object->edit->now.pages++;
    }
}

static void count_made(struct changing *c, struct waiting *w, uintptr_t address, size_t length)
{
    c->object->edit->now.made++;
    count_page(c, w, address);
    count_page(c, w, address + length - 1u);
}

/* The engine lists patches only when it refused some. */
static void count_applied(struct changing *c, struct waiting *w, const struct mvld_batch *batch)
{
    size_t listed = rimf_patch_count(batch);

    for (size_t i = 0; i < listed; i++) {
        const struct mvld_patch *patch = rimf_patch_at(batch, i);

        if (patch->result)
            rimf_edit_left(c->object->edit, refusal(patch->result), 1);
        else
            count_made(c, w, patch->address, patch->length);
    }
    for (size_t i = 0; !listed && i < w->n; i++)
        count_made(c, w, c->object->view.bias + w->words[i].offset, w->words[i].length);
}

static int flush(struct changing *c, struct waiting *w)
{
    const char *pass = c->object->edit->ctx->pass;
    struct mvld_batch *batch;
    int error = -ENOMEM;

    if (!w->n)
        return 0;
    batch = rimf_patch_begin(c->image);
    if (batch)
        error = rimf_patch_add_words(batch, c->object->view.bias, w->words, w->old, w->made, w->n);
    if (error) {
        rimf_patch_end(batch);
        return rimf_fail(c->image, ENOMEM, "%s: out of memory for patches", pass);
    }
    error = rimf_patch_commit(batch, NULL);
    if (error == -EPERM || error == -ENOMEM) /* no other object will fare better */
        error = rimf_fail(c->image, -error, "%s: no code could be changed: %s", pass,
                          c->image->error);
    else
        error = 0;
    count_applied(c, w, batch);
    rimf_patch_end(batch);
    w->n = 0;
    return error;
}

/* A site that already is what it shall be has no patch. */
static int add(struct changing *c, struct waiting *w, const struct site *site)
{
    w->words[w->n] = (struct mvld_word){
        .offset = (uint32_t)(site->address - c->object->view.bias),
        .length = site->length,
    };
    w->old[w->n] = site->old;
    w->made[w->n++] = site->made;
    return w->n == BATCH ? flush(c, w) : 0;
}

static int patch_call(struct changing *c, struct waiting *w, const struct analysis_call *call)
{
    struct rimf_edit *edit = c->object->edit;
    struct way *way = way_of(c, call);
    const char *why = NULL;
    struct site site;

    if (way == c->ways && !way->target)
        return 0;
    edit->now.sites++;
    if (way->target)
        why = change_site(c, call, way,
                          code_room(c->object, c->object->view.bias + call->address), &site);
    else
        why = way->all_far ? edit_far : c->whys[way - c->ways];
    if (!why)
        return add(c, w, &site);
    rimf_edit_left(edit, why, 1);
    return 0;
}

/* 1 when the call was changed where it was moved to, and is none of the original.  `*unit` goes to that
 * which it is in. */
static int has_moved(const struct changing *c, const struct analysis *s, uint32_t address,
                     size_t *unit)
{
    if (!s)
        return 0;
    while (address - s->units[*unit].start >= s->units[*unit].size)
        ++*unit; /* the reader saw to it that there is one */
    return s->units[*unit].reason == ANALYSIS_PROVEN &&
           moved_fragment_at(c->image->moved, c->object, c->object->view.bias + address);
}

int change_patches(struct changing *c)
{
    int moved = c->image->has_moved && c->object->moved, error = 0;
    const struct analysis *s = moved ? rimf_analysis_units(c->image, c->object) : NULL;
    struct waiting *w = rimf_heap_alloc(&c->image->heap, sizeof *w);
    size_t unit = 0;

    if (!w || (moved && !s)) {
        rimf_heap_release(&c->image->heap, w);
        return rimf_fail(c->image, ENOMEM, "%s: out of memory for patches",
                         c->object->edit->ctx->pass);
    }
    for (size_t i = 0; i < c->n_calls && !error; i++) {
        if (i + AHEAD < c->n_calls)
            __builtin_prefetch((const void *)(c->object->view.bias + c->calls[i + AHEAD].address));
        if (!has_moved(c, s, c->calls[i].address, &unit))
            error = patch_call(c, w, &c->calls[i]);
    }
    error = error ? error : flush(c, w);
    rimf_heap_release(&c->image->heap, w);
    return error;
}
