/* SPDX-License-Identifier: MIT
 *
 * rimf/realise/changes.c: the calls of an object made direct where they stand, as its edit says.
 *
 *     ends         where calls through a slot end, asked once a slot, in the order in which slots lie; no
 *                  page of code is read
 *     window       the pages with a call that becomes direct are writable, and the process's own, a
 *                  stretch of them after the other: each call is read, compared with what the
 *                  analysis says, and written
 *
 * So a page of code is read once, just after the kernel has copied it, and its protection is changed
 * once each way.  When anything else runs in this address space, or code may not be made writable,
 * or some of the calls have moved, the same calls become patches, some thousands at a time
 * (realise/patches.c): these are read to judge, read again to verify, and written later.
 *
 * Slots lie side by side, so what is known of them lies in an array by their place.
 *
 * Calls may be direct in a file already (store/manifest.h), which is laid over first.
 */
#include "rimf/realise/changes.h"

#include "rimf/base/base.h"
#include "rimf/moved/moved.h"
#include "rimf/patch/patch.h"

#include <errno.h>    /* numbers only */

static uintptr_t slot_at(const struct changing *c, size_t way)
{
    return way ? c->object->view.bias + c->first + 8 * (way - 1) : 0;
}

/* ---- ends -------------------------------------------------------------------------- */

/* Of each page the first, and those that go on into the next. */
static void want(struct changing *c, uint32_t at, uint32_t end)
{
    const struct mvld_word *last = c->n_words ? &c->words[c->n_words - 1] : NULL;
    uint32_t last_page = last ? (last->offset + last->length - 1) / RIMF_PAGE : 0;

    c->words[c->n_words++] =
        (struct mvld_word){.offset = at, .length = (uint16_t)(end + 1 - at)};
    c->pages += (!last || at / RIMF_PAGE != last_page) + (at / RIMF_PAGE != end / RIMF_PAGE);
}

/* From nowhere in the object it can be reached, which needs no look at its code. */
static int is_far(const struct mvld_object *object, uintptr_t target)
{
    intptr_t low = (intptr_t)(target - object->end), high = (intptr_t)(target - object->start);

    return (low > INT32_MAX && high > INT32_MAX) || (low < INT32_MIN && high < INT32_MIN);
}

/* Of what has not moved itself, when all code has that moves (image/edits.c): it leads there.  What is
 * learnt relies on what was moved at the start alone; the rest is each process's own. */
static uintptr_t where_it_runs(const struct changing *c, uintptr_t target)
{
    const struct mvld_object *to = target && c->image->has_moved ? rimf_object_find(c->image, target) : NULL;
    uint32_t number = to ? rimf_object_of(to)->number : 0;
    int may = to && (!rimf_image_learns(c->image) || (number && number <= c->image->n_start));
    uintptr_t moved = may ? rimf_moved_to(c->image, target) : 0;

    return moved ? moved : target;
}

/* Memory for reasons that nobody touches where there are none. */
static void ask_of(struct changing *c, size_t i)
{
    struct way *way = &c->ways[i];
    const char *why;

    if (!i) {
        way->target = rimf_edit_end(c->image, c->object, 0);
        return;
    }
    why = rimf_edit_lead(c->image, c->object, slot_at(c, i), &way->target);
    if (why) {
        way->target = 0;
        c->whys[i] = why;
        return;
    }
    way->target = where_it_runs(c, way->target);
    way->all_far = way->target && is_far(&c->object->public, way->target);
    if (way->all_far)
        way->target = 0;
}

static void ask(struct changing *c)
{
    for (size_t i = 0; i < c->n_calls; i++)
        way_of(c, &c->calls[i])->calls++;
    for (size_t i = 0; i < c->n_ways; i++)
        if (c->ways[i].calls)
            ask_of(c, i);
}

/* A page that is wanted needs no other call of it, but for one at its end. */
static void choose(struct changing *c)
{
    uint32_t wanted = UINT32_MAX; /* page in which the last one began */

    for (size_t i = 0; i < c->n_calls; i++) {
        const struct analysis_call *call = &c->calls[i];
        uint32_t at = call->address, end = at + analysis_call_length(call) - 1;

        if ((at / RIMF_PAGE == wanted && end / RIMF_PAGE == wanted) || !way_of(c, call)->target)
            continue;
        want(c, at, end);
        wanted = at / RIMF_PAGE;
    }
}

/* ---- the window --------------------------------------------------------------------- */

static void store(const struct site *site)
{
    uint32_t first = (uint32_t)site->made, rest = (uint32_t)(site->made >> 8 * (site->length - 4u));

    memcpy((void *)site->address, &first, sizeof first);
    memcpy((void *)(site->address + site->length - 4u), &rest, sizeof rest);
}

static void miss(struct changing *c, const struct way *way, int is_far)
{
    struct missed *missed = &c->missed[way - c->ways];

    missed->far += is_far != 0;
    missed->other += !is_far;
    c->any_missed = 1;
}

const char *change_site(struct changing *c, const struct analysis_call *call, struct way *way,
                        size_t room, struct site *site)
{
    enum mvld_reference_kind kind = (enum mvld_reference_kind)analysis_call_kind(call);
    uintptr_t bias = c->object->view.bias;

    if (!site_read(site, kind, bias + call->address, room) ||
        !(kind == MVLD_REFERENCE_CALL_SINGLE
              ? site_inline(site, code_room(c->object, site->target))
              : goes_through(c, site, site->target, way, bias + analysis_slot(call))))
        return edit_other;
    return kind != MVLD_REFERENCE_CALL_SINGLE && !site_make(site, way->target) ? edit_far : NULL;
}

static void change(struct changing *c, const struct analysis_call *call, struct way *way)
{
    struct site site;
    const char *why = change_site(c, call, way, SITE_MAX, &site);

    if (why)
        miss(c, way, why == edit_far);
    else
        store(&site);
}

/* Nothing that is called from here lies in the object (holds_us). */
static void change_up_to(void *cookie, uintptr_t end)
{
    struct changing *c = cookie;
    size_t i = c->next;

    for (; i < c->n_calls; i++) {
        const struct analysis_call *call = &c->calls[i];
        struct way *way = way_of(c, call);

        if (c->object->view.bias + call->address >= end)
            break;
        if (way->target)
            change(c, call, way);
    }
    c->next = i;
}

/* Code that is run while that of the object cannot be. */
static int holds_us(const struct mvld_object *object)
{
    return (uintptr_t)change_up_to - object->start < object->end - object->start;
}

static int commit(struct mvld_image *image, struct changing *c)
{
    struct mvld_batch *batch = rimf_patch_begin(image);
    int error = -ENOMEM;

    if (batch && rimf_object_unentered(image, c->object))
        rimf_patch_unentered(batch);
    if (batch)
        error = rimf_patch_add_writer(batch, c->object->view.bias, c->words, c->n_words,
                                      change_up_to, c);
    if (!error)
        error = rimf_patch_commit(batch, NULL);
    rimf_patch_end(batch);
    if (c->next == c->n_calls)
        return 0;
    return error ? error : -EBUSY;
}

/* ---- an object ------------------------------------------------------------------------ */

size_t changing_places(struct changing *c)
{
    uint32_t low = UINT32_MAX, high = 0;

    for (size_t i = 0; i < c->n_calls; i++) {
        uint32_t slot = analysis_slot(&c->calls[i]);

        low = slot && slot < low ? slot : low;
        high = slot > high ? slot : high;
    }
    c->first = low;
    return high ? (high - low) / 8 + 2 : 1;
}

/* At most two calls of each page, and no more than there are. */
static size_t most_words(const struct changing *c)
{
    const struct mvld_object *object = &c->object->public;
    size_t n = 0;

    for (size_t i = 0; i < object->n_segments; i++)
        if (object->segments[i].prot & PROT_EXEC)
            n += 2 * ((object->segments[i].end - object->segments[i].start) / RIMF_PAGE + 2);
    return n < c->n_calls ? n : c->n_calls;
}

static void count(struct changing *c)
{
    struct rimf_edit *edit = c->object->edit;

    for (size_t i = 0; i < c->n_ways; i++) {
        const struct way *way = &c->ways[i];
        const struct missed missed = c->any_missed ? c->missed[i] : (struct missed){0, 0};
        size_t left = way->target ? missed.other : way->all_far ? 0 : way->calls;
        size_t far = way->all_far ? way->calls : missed.far;

        if (!way->calls || (!i && !(edit->flags & MVLD_CALLS_SINGLES)))
            continue;
        edit->now.sites += way->calls;
        edit->now.made += way->calls - left - far;
        rimf_edit_left(edit, edit_far, far);
        rimf_edit_left(edit, way->target || !i ? edit_other : c->whys[i], left);
    }
    edit->now.pages = (size_t)c->pages;
}

/* What there is to change, with memory for it. */
static int prepare(struct changing *c, const char **why)
{
    struct rimf_heap *heap = &c->image->heap;

    c->calls = rimf_alone_calls(c->image, c->object, &c->n_calls, why);
    if (!c->calls)
        return -ENODATA;
    c->n_ways = changing_places(c);
    if (c->n_ways > CHANGING_MOST) {
        *why = "its slots lie too far apart";
        return -ENODATA;
    }
    c->ways = rimf_heap_alloc(heap, c->n_ways * (sizeof *c->ways + sizeof *c->missed + sizeof *c->whys));
    c->missed = (struct missed *)(c->ways + c->n_ways);
    c->whys = (const char **)(c->missed + c->n_ways);
    c->words = rimf_heap_alloc(heap, (most_words(c) + 1) * sizeof *c->words);
    if (c->ways && c->words)
        return 0;
    return rimf_fail(c->image, ENOMEM, "%s: out of memory for the calls of %s", c->object->edit->ctx->pass,
                     c->object->public.name);
}

/* Together, where that can be. */
int rimf_calls_change(struct mvld_image *image, struct rimf_object *object, const char **why)
{
    struct changing c = {.image = image, .object = object};
    int result = prepare(&c, why);

    if (!result) {
        ask(&c);
        choose(&c);
        if (image->watch)
            rimf_alone_write(image, &c);
        if ((image->has_moved && object->moved) || holds_us(&object->public) || (c.n_words && commit(image, &c)))
            result = change_patches(&c);
        else
            count(&c);
        object->calls_direct |= object->edit->now.made != 0;
    }
    rimf_heap_release(&image->heap, c.ways);
    rimf_heap_release(&image->heap, c.words);
    return result;
}
