/* SPDX-License-Identifier: MIT
 *
 * order.c: the order of code in the region, and its fragments.
 *
 *     as-loaded          the link map's order: an object before those that it needs
 *     random             objects in random order, with gaps between them, so that an address in the
 *                        region does not reveal the code of other objects
 *     random-functions   the functions of each object in random order, too
 *     profile            the functions that a file names (profile.c), hottest first, of all
 *                        objects; then the rest of each object
 *
 * Objects that the profile does not name, and all objects under the first two orders, are one
 * block, which is cheapest.
 */
#include "concat.h"

#include <errno.h> /* numbers only */

#define PAGE 4096u
#define GAP_PAGES_MAX 15u

/* ---- randomness ------------------------------------------------------------------------ */

struct draws {
    const struct mvld_context *ctx;
    uint64_t pool[32];
    size_t left;
};

/* If the kernel has no random numbers, the order does not change. */
static uint64_t draw(struct draws *d, uint64_t below)
{
    if (!d->left) {
        if (d->ctx->api->random(d->ctx->image, d->pool, sizeof d->pool))
            return below - 1;
        d->left = sizeof d->pool / sizeof d->pool[0];
    }
    return d->pool[--d->left] % below;
}

static void shuffle(struct draws *d, struct concat_item *items, size_t n)
{
    for (size_t i = n; i-- > 1;) { /* Fisher and Yates */
        size_t k = draw(d, i + 1);
        struct concat_item other = items[i];

        items[i] = items[k];
        items[k] = other;
    }
}

/* ---- plans ------------------------------------------------------------------------------- */

/* An object that is cut into fragments. */
struct cut {
    struct mvld_fragment *fragments; /* NULL: it is one block */
    uint8_t *is_hot;           /* by fragment */
    size_t n;
};

struct planning {
    const struct mvld_context *ctx;
    const struct mvld_object *const *objects;
    size_t n;
    struct cut *cuts;
    struct concat_plan *plan;
    struct draws draws;
};

static int out_of_memory(const struct planning *p)
{
    return p->ctx->api->fail(p->ctx->image, ENOMEM, "concat: out of memory");
}

/* An object that cannot be cut is one block; this is no error. */
static int cut(struct planning *p, size_t i)
{
    const struct mvld_api *api = p->ctx->api;
    const char *why;
    size_t n;

    if (p->cuts[i].fragments)
        return 0;
    n = api->fragments(p->ctx->image, p->objects[i], NULL, 0, &why);
    if (n < 2)
        return 0;
    p->cuts[i].fragments = api->alloc(p->ctx->image, n * sizeof *p->cuts[i].fragments);
    p->cuts[i].is_hot = api->alloc(p->ctx->image, n);
    if (!p->cuts[i].fragments || !p->cuts[i].is_hot)
        return out_of_memory(p);
    p->cuts[i].n = api->fragments(p->ctx->image, p->objects[i], p->cuts[i].fragments, n, &why);
    return 0;
}

/* Allocates all fragments and blocks. */
static int make_room(struct planning *p)
{
    size_t n = p->n;

    for (size_t i = 0; i < p->n; i++)
        n += p->cuts[i].n;
    p->plan->items = p->ctx->api->alloc(p->ctx->image, n * sizeof *p->plan->items);
    return p->plan->items ? 0 : out_of_memory(p);
}

static void add(struct planning *p, size_t object, struct mvld_fragment fragment)
{
    p->plan->items[p->plan->n++] =
        (struct concat_item){.object = p->objects[object], .fragment = fragment};
}

/* ---- orders -------------------------------------------------------------------------------- */

static int as_loaded(struct planning *p)
{
    int error = make_room(p);

    for (size_t i = 0; i < p->n && !error; i++)
        add(p, i, (struct mvld_fragment){0, 0});
    return error;
}

static int by_chance(struct planning *p)
{
    int error = as_loaded(p);

    if (error)
        return error;
    shuffle(&p->draws, p->plan->items, p->plan->n);
    for (size_t i = 0; i < p->plan->n; i++)
        p->plan->items[i].gap = draw(&p->draws, GAP_PAGES_MAX + 1) * PAGE;
    return 0;
}

static size_t index_of(const struct planning *p, const struct mvld_object *object)
{
    size_t i = 0;

    while (p->objects[i] != object)
        i++;
    return i;
}

static int functions_by_chance(struct planning *p)
{
    struct concat_plan blocks;
    int error = by_chance(p);

    blocks = *p->plan;
    *p->plan = (struct concat_plan){0};
    for (size_t i = 0; i < p->n && !error; i++)
        error = cut(p, i);
    if (!error)
        error = make_room(p);
    for (size_t i = 0; i < blocks.n && !error; i++) {
        size_t object = index_of(p, blocks.items[i].object), first = p->plan->n;

        for (size_t k = 0; k < p->cuts[object].n; k++)
            add(p, object, p->cuts[object].fragments[k]);
        if (!p->cuts[object].n)
            add(p, object, (struct mvld_fragment){0, 0});
        shuffle(&p->draws, p->plan->items + first, p->plan->n - first);
        p->plan->items[first].gap = blocks.items[i].gap;
    }
    p->ctx->api->release(p->ctx->image, blocks.items);
    return error;
}

/* The index of the fragment that contains the address, or the number of fragments. */
static size_t fragment_at(const struct cut *c, uintptr_t address)
{
    size_t low = 0, high = c->n; /* the last that begins at or before it */

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (c->fragments[middle].original <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low && address - c->fragments[low - 1].original < c->fragments[low - 1].size ? low - 1
                                                                                        : c->n;
}

/* Adds each run of fragments that are not hot as one item. */
static void add_rest(struct planning *p, size_t object)
{
    const struct cut *c = &p->cuts[object];

    if (!c->n)
        add(p, object, (struct mvld_fragment){0, 0});
    for (size_t i = 0, end; i < c->n; i = end) {
        const struct mvld_fragment *first = &c->fragments[i], *last;

        for (end = i + 1; end < c->n && c->is_hot[end] == c->is_hot[i];)
            end++;
        last = &c->fragments[end - 1];
        if (!c->is_hot[i])
            add(p, object, (struct mvld_fragment){first->original,
                                                  last->original + last->size - first->original});
    }
}

static int by_profile(struct planning *p)
{
    struct concat_profile profile;
    int error = concat_profile_read(p->ctx, p->objects, p->n, &profile);

    for (size_t i = 0; i < profile.n && !error; i++)
        error = cut(p, profile.hot[i].object);
    if (!error)
        error = make_room(p);
    for (size_t i = 0; i < profile.n && !error; i++) {
        struct cut *c = &p->cuts[profile.hot[i].object];
        size_t fragment = fragment_at(c, profile.hot[i].original);

        if (fragment == c->n || c->is_hot[fragment])
            continue;
        c->is_hot[fragment] = 1;
        p->plan->hot += c->fragments[fragment].size;
        add(p, profile.hot[i].object, c->fragments[fragment]);
    }
    p->plan->n_hot = p->plan->n;
    for (size_t i = 0; i < p->n && !error; i++)
        add_rest(p, i);
    p->ctx->api->release(p->ctx->image, profile.hot);
    return error;
}

int concat_plan(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n,
                struct concat_plan *plan)
{
    static int (*const orders[])(struct planning *) = {as_loaded, by_chance, functions_by_chance,
                                                       by_profile};
    struct planning p = {.ctx = ctx, .objects = objects, .n = n, .plan = plan,
                         .draws = {.ctx = ctx}};
    int error;

    *plan = (struct concat_plan){0};
    if (!n)
        return 0;
    p.cuts = ctx->api->alloc(ctx->image, n * sizeof *p.cuts);
    error = p.cuts ? orders[ctx->settings[CONCAT_ORDER].number](&p) : out_of_memory(&p);
    for (size_t i = 0; p.cuts && i < n; i++) {
        ctx->api->release(ctx->image, p.cuts[i].fragments);
        ctx->api->release(ctx->image, p.cuts[i].is_hot);
    }
    ctx->api->release(ctx->image, p.cuts);
    if (error)
        concat_plan_release(ctx, plan);
    return error;
}

void concat_plan_release(const struct mvld_context *ctx, struct concat_plan *plan)
{
    ctx->api->release(ctx->image, plan->items);
    *plan = (struct concat_plan){0};
}
