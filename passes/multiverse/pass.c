/* SPDX-License-Identifier: MIT
 *
 * pass.c: the engine as a pass.  It binds variation points before the first constructor runs, and
 * those of later objects before their constructors.
 */
#include "passes/multiverse/options.h"

#include "mvld/pass.h"

static const char *const behind[] = {"concat", "direct-calls", NULL};
static const char *const when[] = {"before-constructors", "manual", NULL};
enum { MANUAL = 1 };

static const struct mvld_option options[] = {
    {.name = "commit", .type = MVLD_OPTION_WORD, .words = when, .initial = "before-constructors",
     .help = "when variation points are bound first; manual: when the program says so"},
    {.name = "set.", .type = MVLD_OPTION_PREFIX,
     .help = "set.SWITCH = NUMBER: a switch's initial value"},
    {.name = "bind.", .type = MVLD_OPTION_PREFIX,
     .help = "bind.SWITCH = 0 or 1: may variants fix this tracked switch?"},
    {.name = NULL},
};

/* Adds the objects of one event; at start all of them. */
static int take_objects(const struct mvld_context *ctx, struct mv_engine *engine,
                        const struct mvld_object *const *objects, size_t n)
{
    int err = mv_added(engine, objects, n);

    if (!err)
        mv_configure(engine, ctx->settings, ctx->n_settings);
    return err;
}

static int first_commit(const struct mvld_context *ctx, struct mv_engine *engine)
{
    /* Also without any point: this also decides how later objects are bound. */
    int changed = ctx->settings[0].number == MANUAL ? 0 : mv_apply(engine, MV_COMMIT, MV_ALL, 0);
    size_t points = 0, sites = 0;

    for (const struct mv_unit *u = engine->units; u; u = u->next) {
        sites += u->n_sites;
        points += u->n_points;
    }
    if (changed >= 0)
        ctx->api->log(ctx->image, MVLD_LOG_PASSES,
                      "multiverse: %zu functions, %zu call sites, %d functions bound", points,
                      sites, changed);
    return changed < 0 ? changed : 0;
}

static int start(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    struct mv_engine *engine;
    int err = mv_create(ctx->image, ctx->api, &rimf_sys_kernel, &engine);

    if (err)
        return err;
    *ctx->state = engine;
    err = mv_lock(engine, NULL);
    if (!err) {
        err = take_objects(ctx, engine, objects, n);
        if (!err)
            err = first_commit(ctx, engine);
        mv_finished(engine);
        mv_unlock(engine);
    }
    return err;
}

static int run(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    struct mv_engine *engine = *ctx->state;
    int err;

    /* Makes the edits of earlier passes, before any code is read. */
    ctx->api->patch_end(ctx->api->patch_begin(ctx->image));
    if (!ctx->later)
        return start(ctx, objects, n);
    err = mv_lock(engine, NULL);
    if (err)
        return ctx->api->fail(ctx->image, -err, "multiverse: dlopen inside of a commit");
    err = take_objects(ctx, engine, objects, n);
    if (!err)
        err = mv_apply_fresh(engine);
    mv_unlock(engine);
    return err < 0 ? err : 0;
}

static void removed(const struct mvld_context *ctx, const struct mvld_object *const *objects,
                    size_t n)
{
    struct mv_engine *engine = *ctx->state;

    if (!engine || mv_lock(engine, NULL))
        return;
    mv_removed(engine, objects, n);
    mv_unlock(engine);
}

__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI,
    .name = "multiverse",
    .help = "patches code for the values of rarely changing variables",
    .behind = behind,
    .options = options,
    .library = "libmultiverse.so.1",
    .run = run,
    .removed = removed,
    .flags = MVLD_PASS_VARIANTS,
};
