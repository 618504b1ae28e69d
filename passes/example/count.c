/* SPDX-License-Identifier: MIT
 *
 * passes/example/count.c: the smallest pass that does something: it counts the objects and segments of the
 * program and logs this under MVLD_DEBUG=passes.
 *
 * It is written as a third party would write it: it includes only mvld/pass.h, and has an option of each
 * type.  passes/README.md explains how to write a pass.
 */
#include <mvld/pass.h>

#include <errno.h> /* numbers only */

static const char *const words[] = {"objects", "segments", "both", NULL};

static const struct mvld_option options[] = {
    {.name = "names", .type = MVLD_OPTION_BOOL, .initial = "no",
     .help = "also print the name of each object, and how many symbols it defines"},
    {.name = "at-most", .type = MVLD_OPTION_INT, .min = 1, .max = 1000000, .initial = "100000",
     .help = "fail when the program has more objects than this"},
    {.name = "what", .type = MVLD_OPTION_WORD, .words = words, .initial = "both",
     .help = "what to count"},
    {.name = "prefix", .type = MVLD_OPTION_STRING, .initial = "count:",
     .help = "text before each line"},
    {.name = "note.", .type = MVLD_OPTION_PREFIX, .help = "note.ANYTHING = text: printed as it is"},
    {.name = NULL},
};

enum { NAMES, AT_MOST, WHAT, PREFIX, NOTES }; /* order of the options above */

static size_t count_segments(const struct mvld_object *const *objects, size_t n)
{
    size_t segments = 0;

    for (size_t i = 0; i < n; i++)
        segments += objects[i]->n_segments;
    return segments;
}

static int count_symbol(void *n, const struct mvld_symbol *symbol)
{
    (void)symbol;
    ++*(size_t *)n;
    return 0;
}

static size_t count_symbols(const struct mvld_api *api, const struct mvld_object *object)
{
    size_t n = 0;

    api->symbol_each(object, count_symbol, &n);
    return n;
}

static int run(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    const struct mvld_api *api = ctx->api;
    const struct mvld_setting *set = ctx->settings;
    const char *prefix = set[PREFIX].text;

    if (ctx->later) {
        api->log(ctx->image, MVLD_LOG_PASSES, "%s %zu added, the first is %s", prefix, n,
                 n ? objects[0]->name : "none");
        return 0;
    }
    if ((int64_t)n > set[AT_MOST].number)
        return api->fail(ctx->image, E2BIG, "%zu objects are more than at-most = %s", n,
                         set[AT_MOST].text);
    if (set[WHAT].number != 1)
        api->log(ctx->image, MVLD_LOG_PASSES, "%s %zu objects", prefix, n);
    if (set[WHAT].number != 0)
        api->log(ctx->image, MVLD_LOG_PASSES, "%s %zu segments", prefix, count_segments(objects, n));
    for (size_t i = 0; set[NAMES].number && i < n; i++)
        api->log(ctx->image, MVLD_LOG_PASSES, "%s %s: %zu symbols", prefix, objects[i]->name,
                 count_symbols(api, objects[i]));
    for (size_t i = NOTES; i < ctx->n_settings; i++)
        api->log(ctx->image, MVLD_LOG_PASSES, "%s %s: %s", prefix, set[i].name, set[i].text);
    return 0;
}

static void removed(const struct mvld_context *ctx, const struct mvld_object *const *objects,
                    size_t n)
{
    (void)objects;
    ctx->api->log(ctx->image, MVLD_LOG_PASSES, "%s %zu removed", ctx->settings[PREFIX].text, n);
}

__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI,
    .name = "count",
    .help = "counts the objects and segments of the program",
    .options = options,
    .run = run,
    .removed = removed,
};
