/* SPDX-License-Identifier: MIT
 *
 * rimf/realise/calls.c: makes the calls of an object direct in place, as passes want: makes the pages with such
 * calls writable and private, one stretch after the other; reads each call, compares it with the analysis,
 * and writes it.
 *
 * So a page of code is read once, just after the kernel has copied it, and its protection is changed once
 * each way.  If anything else runs in this address space, or code may not be made writable, or some of the
 * code has moved, the same calls become a list (emit/changes.h): they are read for checking, read again for
 * verification, and written later.
 */
#include "rimf/emit/calls.h"
#include "rimf/emit/changes.h"
#include "rimf/realise/realise.h"

#include "rimf/base/base.h"
#include "rimf/moved/moved.h"
#include "rimf/patch/patch.h"

#include <errno.h> /* numbers only */

struct changing {
    struct emit_calls *c;
    struct mvld_word *words;    /* calls of all pages that are written */
    size_t n_words;
    size_t pages;
    size_t next; /* next call to change */
};

/* ---- which pages -------------------------------------------------------------------- */

/* Selects the first call of each page, and those that extend into the next page. */
static void want(struct changing *c, uint32_t at, uint32_t end)
{
    const struct mvld_word *last = c->n_words ? &c->words[c->n_words - 1] : NULL;
    uint32_t last_page = last ? (last->offset + last->length - 1) / RIMF_PAGE : 0;

    c->words[c->n_words++] =
        (struct mvld_word){.offset = at, .length = (uint16_t)(end + 1 - at)};
    c->pages += (size_t)(!last || at / RIMF_PAGE != last_page) + (at / RIMF_PAGE != end / RIMF_PAGE);
}

/* A selected page needs no other call of it, except one at its end. */
static void choose(struct changing *c)
{
    uint32_t wanted = UINT32_MAX; /* page of the last one's start */

    for (size_t i = 0; i < c->c->n_calls; i++) {
        const struct analysis_call *call = &c->c->calls[i];
        uint32_t at = call->address, end = at + analysis_call_length(call) - 1;

        if ((at / RIMF_PAGE == wanted && end / RIMF_PAGE == wanted) || !way_of(c->c, call)->target)
            continue;
        want(c, at, end);
        wanted = at / RIMF_PAGE;
    }
}

/* At most two calls of each page, and no more than there are. */
static size_t most_words(const struct changing *c)
{
    const struct mvld_object *object = &c->c->object->public;
    size_t n = 0;

    for (size_t i = 0; i < object->n_segments; i++)
        if (object->segments[i].prot & PROT_EXEC)
            n += 2 * ((object->segments[i].end - object->segments[i].start) / RIMF_PAGE + 2);
    return n < c->c->n_calls ? n : c->c->n_calls;
}

/* ---- the window --------------------------------------------------------------------- */

static void store(const struct site *site)
{
    uint32_t first = (uint32_t)site->made, rest = (uint32_t)(site->made >> 8 * (site->length - 4u));

    memcpy((void *)site->address, &first, sizeof first);
    memcpy((void *)(site->address + site->length - 4u), &rest, sizeof rest);
}

static void change(struct emit_calls *c, const struct analysis_call *call, struct way *way)
{
    struct site site;
    const char *why = emit_call(c, call, c->object->view.bias + call->address, 0, SITE_MAX, way, &site);

    if (why)
        emit_miss(c, way, why);
    else
        store(&site);
}

/* Nothing that is called from here is in the object (holds_us). */
static void change_up_to(void *cookie, uintptr_t end)
{
    struct changing *c = cookie;
    size_t i = c->next;

    for (; i < c->c->n_calls; i++) {
        const struct analysis_call *call = &c->c->calls[i];
        struct way *way = way_of(c->c, call);

        if (c->c->object->view.bias + call->address >= end)
            break;
        if (way->target)
            change(c->c, call, way);
    }
    c->next = i;
}

/* Whether the object contains code that must run while the object's code is not executable. */
static int holds_us(const struct mvld_object *object)
{
    return (uintptr_t)change_up_to - object->start < object->end - object->start;
}

static int commit(struct changing *c)
{
    struct mvld_image *image = c->c->image;
    const struct rimf_object *object = c->c->object;
    struct mvld_batch *batch = rimf_patch_begin(image);
    int error = -ENOMEM;

    if (batch && rimf_object_unentered(image, object))
        rimf_patch_unentered(batch);
    if (batch)
        error = rimf_patch_add_writer(batch, object->view.bias, c->words, c->n_words, change_up_to, c);
    if (!error)
        error = rimf_patch_commit(batch, NULL);
    rimf_patch_end(batch);
    return c->next == c->c->n_calls ? 0 : error ? error : -EBUSY;
}

/* ---- as a list --------------------------------------------------------------------- */

#define AHEAD 8u /* code that has not run yet is in distant caches */

static void miss_at(void *calls, uintptr_t at)
{
    struct emit_calls *c = calls;
    uint32_t linked = (uint32_t)(rimf_unmoved(c->image, at) - c->object->view.bias);

    emit_miss(c, way_of(c, &c->calls[ANALYSIS_FROM(c, calls, linked)]), edit_other);
}

/* Where the call runs.  Code that is only planned to move is not there yet: its new address has no original. */
static uintptr_t runs_at(const struct emit_calls *c, uintptr_t original)
{
    uintptr_t moved = c->object->moved ? rimf_moved_to(c->image, original) : 0;

    return rimf_original_of(c->image, moved) ? moved : original;
}

static void list_call(struct emit_calls *c, struct changes *list, const struct analysis_call *call)
{
    uintptr_t original = c->object->view.bias + call->address, at = runs_at(c, original);
    struct way *way = way_of(c, call);
    struct site site;
    const char *why;

    if (!way->target)
        return;
    why = emit_call(c, call, at, 0, at != original ? SITE_MAX : code_room(c->object, at), way, &site);
    if (why)
        emit_miss(c, way, why);
    else if (site.old != site.made)
        changes_add(list, site.address, &site.old, &site.made, site.length);
}

/* Each that is not refused, where it runs.  0, or negative errno: the same would happen for every other object. */
static int change_listed(struct emit_calls *c)
{
    struct changes list = {.image = c->image};
    int error;

    for (size_t i = 0; i < c->n_calls; i++) {
        if (i + AHEAD < c->n_calls)
            __builtin_prefetch((const void *)(c->object->view.bias + c->calls[i + AHEAD].address));
        list_call(c, &list, &c->calls[i]);
    }
    error = changes_each(&list);
    changes_refused(&list, miss_at, c);
    changes_end(&list);
    return error == -EPERM || error == -ENOMEM
               ? rimf_fail(c->image, -error, "no code could be changed: %s", c->image->error) : 0;
}

int rimf_calls_change(struct emit_calls *c, int apart)
{
    struct changing all = {.c = c};
    int error;

    all.words = rimf_heap_alloc(&c->image->heap, (most_words(&all) + 1) * sizeof *all.words);
    if (!all.words)
        return rimf_fail(c->image, ENOMEM, "out of memory for the calls of %s", c->object->public.name);
    choose(&all);
    error = apart || holds_us(&c->object->public) || (all.n_words && commit(&all)) ? change_listed(c) : 0;
    emit_count(c, all.pages);
    rimf_heap_release(&c->image->heap, all.words);
    return error;
}
