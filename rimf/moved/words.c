/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/words.c: changes of an object's original code, through the patch engine (moved/moved.h).
 *
 * No thread may stand between two instructions that are overwritten.  At a start nothing runs; objects of
 * dlopen have not run yet, while other threads run elsewhere (rimf_image_set_unentered).  If that is not
 * certain, the patch engine refuses.
 */
#include "rimf/moved/moved.h"

#include "rimf/base/base.h"
#include "rimf/image/private.h"
#include "rimf/patch/patch.h"

#include <errno.h> /* numbers only */

struct moved_words *moved_words_begin(struct moving *c)
{
    struct moved_words *w = c->image->moved->words;

    c->image->moved->words = NULL;
    if (!w)
        w = rimf_heap_alloc(&c->image->heap, sizeof *w);
    if (w)
        w->c = c;
    else
        rimf_fail(c->image, ENOMEM, "%s: there is no memory for changes of its code",
                  c->object->public.name);
    return w;
}

int moved_words_flush(struct moved_words *w)
{
    struct mvld_image *image = w->c->image;
    struct mvld_patch_report patched = {0};
    struct mvld_batch *batch;
    int error;

    if (!w->n)
        return 0;
    batch = rimf_patch_begin(image);
    if (batch && image->unentered)
        rimf_patch_unentered(batch);
    error = batch ? rimf_patch_add_words(batch, w->c->bias, w->words, w->expect, w->replace, w->n)
                  : -ENOMEM;
    if (!error)
        error = rimf_patch_commit(batch, &patched);
    if (batch)
        rimf_patch_end(batch);
    w->applied += patched.applied;
    w->refused += patched.refused;
    w->n = 0;
    return error;
}

int moved_words_add(struct moved_words *w, uintptr_t at, const void *bytes, uint16_t length)
{
    size_t i = w->n++;

    w->words[i] = (struct mvld_word){.offset = (uint32_t)(at - w->c->bias), .length = length};
    w->expect[i] = 0;
    w->replace[i] = 0;
    memcpy(&w->expect[i], (const void *)at, length);
    memcpy(&w->replace[i], bytes, length);
    return w->n == MOVED_WORDS ? moved_words_flush(w) : 0;
}

void moved_words_end(struct moved_words *w)
{
    struct moved_code *moved = w->c->image->moved;

    rimf_heap_release(&w->c->image->heap, moved->words);
    w->n = w->applied = w->refused = 0;
    moved->words = w;
}

void moved_words_release(struct mvld_image *image)
{
    rimf_heap_release(&image->heap, image->moved->words);
    image->moved->words = NULL;
}
