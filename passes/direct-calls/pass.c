/* SPDX-License-Identifier: MIT
 *
 * pass.c: calls through PLT and GOT become direct ones before the first constructor runs,
 * and in objects that come later before theirs.  README.md has the picture.
 */
#include "direct.h"

#include "base.h"

#include <errno.h> /* numbers only */

enum { REWRITABLE, INLINE, CALLS_PER_PAGE }; /* order of the options */

static const char *const rewritable[] = {"direct", "leave", NULL};

static const struct mvld_option options[] = {
    {.name = "rewritable", .type = MVLD_OPTION_WORD, .words = rewritable, .initial = "direct",
     .help = "calls through slots that stay writable, as those of lazy binding do"},
    {.name = "inline", .type = MVLD_OPTION_BOOL, .initial = "yes",
     .help = "functions of a single instruction stand where they are called"},
    {.name = "calls-per-page", .type = MVLD_OPTION_INT, .min = 1, .max = 1024, .initial = "1",
     .help = "pages with fewer such calls stay shared, in processes without an image"},
    {.name = NULL},
};

static void report(const struct direct *d)
{
    const struct direct_counts *c = &d->counts;
    const struct mvld_api *api = d->ctx->api;
    uint32_t category = MVLD_LOG_STATISTICS | MVLD_LOG_PASSES;

    api->log(d->ctx->image, category,
             "direct-calls: %zu objects, %zu of %zu sites made direct, %zu pages (%zu KB) made "
             "private", c->objects, c->made, c->sites, c->pages, c->pages * (RIMF_PAGE / 1024));
    for (size_t i = 0; i < c->n_left; i++)
        api->log(d->ctx->image, category, "direct-calls: %zu sites left: %s", c->left[i].n,
                 c->left[i].why);
}

void direct_end(struct direct *d)
{
    const struct mvld_context *ctx = d->ctx;

    ctx->api->release(ctx->image, d->work);
    ctx->api->release(ctx->image, d->known);
    report(d);
    ctx->api->release(ctx->image, d);
}

/* Of these objects, in an array that is given away. */
static int change(const struct mvld_context *ctx, const struct mvld_object **objects, size_t n)
{
    const struct mvld_api *api = ctx->api;
    struct direct *d = objects ? api->alloc(ctx->image, sizeof *d) : NULL;
    int err = 0;

    if (!d) {
        api->release(ctx->image, objects);
        return api->fail(ctx->image, ENOMEM, "direct-calls: out of memory");
    }
    d->ctx = ctx;
    d->leave_rewritable = rimf_streq(ctx->settings[REWRITABLE].text, "leave");
    d->inlines = ctx->settings[INLINE].number != 0;
    d->least = (size_t)ctx->settings[CALLS_PER_PAGE].number;
    if (direct_later(d, objects, n))
        return 0;
    for (size_t i = 0; i < n && !err; i++)
        err = direct_object(d, objects[i]);
    api->release(ctx->image, objects);
    direct_end(d);
    return err;
}

/* Says so. */
static int is_watched(const struct mvld_context *ctx)
{
    const char *watcher = ctx->api->plt_watcher(ctx->image);

    if (watcher)
        ctx->api->log(ctx->image, MVLD_LOG_PASSES, "direct-calls: no call is changed: %s", watcher);
    return watcher != NULL;
}

static int run(const struct mvld_context *ctx)
{
    size_t n = ctx->api->object_count(ctx->image);
    const struct mvld_object **objects;

    if (is_watched(ctx))
        return 0;
    objects = ctx->api->alloc(ctx->image, n * sizeof *objects);
    for (size_t i = 0; objects && i < n; i++)
        objects[i] = ctx->api->object_at(ctx->image, i);
    return change(ctx, objects, n);
}

static int added(const struct mvld_context *ctx, const struct mvld_object *const *objects,
                 size_t n)
{
    const struct mvld_object **own;

    if (is_watched(ctx))
        return 0;
    own = ctx->api->alloc(ctx->image, n * sizeof *own);
    if (own)
        memcpy(own, objects, n * sizeof *own);
    return change(ctx, own, n);
}

__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI,
    .size = sizeof(struct mvld_pass),
    .name = "direct-calls",
    .help = "calls between objects go straight to their targets",
    .options = options,
    .run = run,
    .added = added,
    .flags = MVLD_PASS_ANALYSIS | MVLD_PASS_FREEZES,
};
