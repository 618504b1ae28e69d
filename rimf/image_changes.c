/* SPDX-License-Identifier: MIT
 *
 * rimf/image_changes.c: the calls of an object made direct together, where they stand.
 *
 *     ends         where calls through a slot end, asked once a slot, in the order in which slots lie; no
 *                  page of code is read
 *     window       the pages with a call that becomes direct are writable, and the process's own, a
 *                  stretch of them after the other: each call is read, compared with what the
 *                  analysis says, and written
 *
 * So a page of code is read once, just after the kernel has copied it, and its protection is changed
 * once each way.  Patches through a batch of their own (reference_each) read it to judge, read it
 * again to verify, and write it later; which is what remains when anything else runs in this
 * address space, when code may not be made writable, and while calls of copies are left out.
 *
 * Slots lie side by side, so what is known of them lies in an array by their place.
 *
 * Calls may be direct in a file already (ready.h), which is laid over first.
 */
#include "image_changes.h"

#include "base.h"
#include "copies.h"
#include "patch.h"

#include <errno.h>    /* numbers only */

#define PLACES_MOST (1u << 18) /* of an object whose slots lie farther apart: no */

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

/* Of what has no copy itself, when all copies are there (image_calls.c): it leads to them. */
static uintptr_t copy_of(const struct changing *c, uintptr_t target)
{
    uintptr_t copy = target && c->image->calls_home ? rimf_copy_of(c->image, target) : 0;

    return copy ? copy : target;
}

static void ask_of(struct changing *c, struct way *way, const struct mvld_ends *ends)
{
    way->target = ends->end(ends->cookie, slot_at(c, (size_t)(way - c->ways)));
    if (way > c->ways)
        way->target = copy_of(c, way->target);
    way->all_far = way > c->ways && way->target && is_far(&c->object->public, way->target);
    if (way->all_far)
        way->target = 0;
}

static void ask(struct changing *c, const struct mvld_ends *ends)
{
    for (size_t i = 0; i < c->n_calls; i++)
        way_of(c, &c->calls[i])->calls++;
    for (size_t i = 0; i < c->n_ways; i++)
        if (c->ways[i].calls)
            ask_of(c, &c->ways[i], ends);
}

static int is_sparse(const struct changing *c, uint32_t page)
{
    return c->sparse && c->sparse[page / 8] >> page % 8 & 1;
}

/* The calls from `i` on that begin in one page stay. */
static void leave_page(struct changing *c, size_t i)
{
    uint32_t page = (uint32_t)(c->calls[i].address / RIMF_PAGE);

    c->sparse[page / 8] |= (uint8_t)(1u << page % 8);
    c->any_missed = 1;
    for (; i < c->n_calls && c->calls[i].address / RIMF_PAGE == page; i++) {
        struct way *way = way_of(c, &c->calls[i]);

        if (!way->target)
            continue;
        c->missed[way - c->ways].few++;
        c->n_few++;
    }
}

/* Nothing stays where memory is short. */
static void leave_sparse(struct changing *c)
{
    size_t first = 0, n = 0;

    if (c->least > 1 && c->n_calls)
        c->sparse = rimf_heap_alloc(&c->image->heap,
                                    c->calls[c->n_calls - 1].address / RIMF_PAGE / 8 + 1);
    for (size_t i = 0; c->sparse && i < c->n_calls; i++) {
        n += way_of(c, &c->calls[i])->target != 0;
        if (i + 1 < c->n_calls &&
            c->calls[i + 1].address / RIMF_PAGE == c->calls[first].address / RIMF_PAGE)
            continue;
        if (n && n < c->least)
            leave_page(c, first);
        first = i + 1;
        n = 0;
    }
}

/* A page that is wanted needs no other call of it, but for one at its end. */
static void choose(struct changing *c)
{
    uint32_t wanted = UINT32_MAX; /* page in which the last one began */

    for (size_t i = 0; i < c->n_calls; i++) {
        const struct sidecar_call *call = &c->calls[i];
        uint32_t at = call->address, end = at + sidecar_call_length(call) - 1;

        if ((at / RIMF_PAGE == wanted && end / RIMF_PAGE == wanted) ||
            is_sparse(c, at / RIMF_PAGE) || !way_of(c, call)->target)
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

static void change(struct changing *c, const struct sidecar_call *call, struct way *way)
{
    enum mvld_reference_kind kind = (enum mvld_reference_kind)sidecar_call_kind(call);
    uintptr_t bias = c->object->view.bias;
    struct site site;

    if (!site_read(&site, kind, bias + call->address, SITE_MAX) ||
        !(kind == MVLD_REFERENCE_CALL_SINGLE
              ? site_inline(&site, site_room(&c->object->public, site.leads))
              : goes_through(c, &site, site.leads, way, bias + sidecar_slot(call))))
        miss(c, way, 0);
    else if (kind != MVLD_REFERENCE_CALL_SINGLE && !site_make(&site, way->target))
        miss(c, way, 1);
    else
        store(&site);
}

/* Nothing that is called from here lies in the object (holds_us). */
static void change_up_to(void *cookie, uintptr_t end)
{
    struct changing *c = cookie;
    size_t i = c->next;

    for (; i < c->n_calls; i++) {
        const struct sidecar_call *call = &c->calls[i];
        struct way *way = way_of(c, call);

        if (c->object->view.bias + call->address >= end)
            break;
        if (way->target && !is_sparse(c, call->address / RIMF_PAGE))
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

static size_t count_places(struct changing *c)
{
    uint32_t low = UINT32_MAX, high = 0;

    for (size_t i = 0; i < c->n_calls; i++) {
        uint32_t slot = sidecar_slot(&c->calls[i]);

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

static void tell(const struct changing *c, const struct mvld_ends *ends)
{
    for (size_t i = 0; i < c->n_ways; i++) {
        const struct way *way = &c->ways[i];
        const struct missed missed = c->any_missed ? c->missed[i] : (struct missed){0, 0, 0};
        size_t calls = way->calls - missed.few;

        if (calls)
            ends->became(ends->cookie, slot_at(c, i), calls,
                         way->target ? calls - missed.other - missed.far : 0,
                         way->all_far ? calls : missed.far);
    }
}

static int change_calls(struct mvld_image *image, struct changing *c, const struct mvld_ends *ends)
{
    int error;

    ask(c, ends);
    leave_sparse(c);
    choose(c);
    if (image->watch)
        rimf_ready_write(image, c, ends);
    error = c->n_words ? commit(image, c) : 0;
    if (!error)
        tell(c, ends);
    return error;
}

long rimf_references_change(struct mvld_image *image, const struct mvld_object *public,
                            const struct mvld_ends *ends)
{
    size_t few;

    return rimf_references_change_dense(image, public, ends, 0, &few);
}

/* What others will map has all calls direct, and costs them no page. */
long rimf_references_change_dense(struct mvld_image *image, const struct mvld_object *public,
                                  const struct mvld_ends *ends, size_t least, size_t *few)
{
    struct rimf_object *object = (struct rimf_object *)rimf_object_of(public);
    struct changing c = {.image = image, .object = object, .least = image->watch ? 0 : least};
    long result = -ENOMEM;

    *few = 0;
    if ((image->calls_home && object->copy) || holds_us(public))
        return -ENOTSUP;
    c.calls = rimf_ready_calls(image, object, ends, &c.n_calls);
    if (!c.calls)
        return -ENODATA;
    c.n_ways = count_places(&c);
    if (c.n_ways > PLACES_MOST)
        return -ENOTSUP;
    c.ways = rimf_heap_alloc(&image->heap, c.n_ways * (sizeof *c.ways + sizeof *c.missed));
    c.missed = (struct missed *)(c.ways + c.n_ways);
    c.words = rimf_heap_alloc(&image->heap, (most_words(&c) + 1) * sizeof *c.words);
    if (c.ways && c.words)
        result = change_calls(image, &c, ends);
    rimf_heap_release(&image->heap, c.ways);
    rimf_heap_release(&image->heap, c.words);
    rimf_heap_release(&image->heap, c.sparse);
    *few = result ? 0 : c.n_few;
    return result ? result : c.pages;
}
