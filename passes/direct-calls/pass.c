/* SPDX-License-Identifier: MIT
 *
 * pass.c: calls through PLT and GOT become direct ones before the first constructor runs,
 * and in objects that come later before theirs.  README.md has the picture.
 */
#include "direct.h"

#include "base.h"

enum { REWRITABLE }; /* order of the options */

static const char *const rewritable[] = {"direct", "leave", NULL};

static const struct mvld_option options[] = {
    {.name = "rewritable", .type = MVLD_OPTION_WORD, .words = rewritable, .initial = "direct",
     .help = "calls through slots that stay writable, as those of lazy binding do"},
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

static int begin(const struct mvld_context *ctx, struct direct *d)
{
    const char *watcher = ctx->api->plt_watcher(ctx->image);

    if (watcher) {
        ctx->api->log(ctx->image, MVLD_LOG_PASSES, "direct-calls: no call is changed: %s", watcher);
        return 0;
    }
    *d = (struct direct){
        .ctx = ctx,
        .leave_rewritable = rimf_streq(ctx->settings[REWRITABLE].text, "leave"),
    };
    return 1;
}

static int end(struct direct *d, int err)
{
    d->ctx->api->release(d->ctx->image, d->work);
    d->ctx->api->release(d->ctx->image, d->known);
    report(d);
    return err;
}

static int run(const struct mvld_context *ctx)
{
    struct direct d;
    int err = 0;

    if (!begin(ctx, &d))
        return 0;
    for (size_t i = 0; i < ctx->api->object_count(ctx->image) && !err; i++)
        err = direct_object(&d, ctx->api->object_at(ctx->image, i));
    return end(&d, err);
}

static int added(const struct mvld_context *ctx, const struct mvld_object *const *objects,
                 size_t n)
{
    struct direct d;
    int err = 0;

    if (!begin(ctx, &d))
        return 0;
    for (size_t i = 0; i < n && !err; i++)
        err = direct_object(&d, objects[i]);
    return end(&d, err);
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
