/* SPDX-License-Identifier: MIT
 *
 * hide.c: a definition that look-ups do not find; and, as `wrong` says, an edit that must be refused.
 */
#include "../ends_with.h"

#include <mvld/pass.h>

enum { SYMBOL, LIBRARY, WRONG };
enum { NOTHING, VARIABLE, TWICE, STAGE, MISSING, ALL };

static const char *const wrongs[] = {"nothing", "variable", "twice", "stage", "missing", "all", NULL};

static const struct mvld_option options[] = {
    {.name = "symbol", .type = MVLD_OPTION_STRING, .initial = ""},
    {.name = "library", .type = MVLD_OPTION_STRING, .initial = ""},
    {.name = "wrong", .type = MVLD_OPTION_WORD, .words = wrongs, .initial = "nothing"},
    {.name = NULL},
};

static int is_wrong(const struct mvld_context *ctx, const struct mvld_symbol *symbol)
{
    struct mvld_symbol variable;

    switch (ctx->settings[WRONG].number) {
    case VARIABLE:
        variable = *symbol;
        variable.type = 1; /* STT_OBJECT */
        return ctx->api->symbol_bind(ctx->image, symbol, &variable);
    case MISSING:
        variable = *symbol;
        variable.name = "nobody_defines_this";
        return ctx->api->symbol_hide(ctx->image, &variable);
    case TWICE:
        return ctx->api->symbol_hide(ctx->image, symbol);
    default:
        return 0;
    }
}

struct all {
    const struct mvld_context *ctx;
    size_t n;
};

static int hide(void *cookie, const struct mvld_symbol *symbol)
{
    struct all *all = cookie;

    all->n++;
    return all->ctx->api->symbol_hide(all->ctx->image, symbol);
}

/* Every definition of the library. */
static int hide_all(const struct mvld_context *ctx, const struct mvld_object *object)
{
    struct all all = {ctx, 0};
    int error = ctx->api->symbol_each(object, hide, &all);

    ctx->api->log(ctx->image, MVLD_LOG_PASSES, "hide: %zu symbols", all.n);
    return error;
}

static int relocate(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    struct mvld_symbol symbol;
    int error = 0;

    for (size_t i = 0; i < n && !error; i++) {
        if (!ends_with(objects[i]->name, ctx->settings[LIBRARY].text))
            continue;
        if (ctx->settings[WRONG].number == ALL) {
            error = hide_all(ctx, objects[i]);
            continue;
        }
        if (ctx->api->symbol_find(objects[i], ctx->settings[SYMBOL].text, NULL, &symbol))
            continue;
        error = ctx->settings[WRONG].number == VARIABLE ? 0 : ctx->api->symbol_hide(ctx->image, &symbol);
        error = error ? error : is_wrong(ctx, &symbol);
    }
    return error;
}

static int run(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    struct mvld_symbol symbol;

    (void)objects;
    (void)n;
    if (ctx->settings[WRONG].number != STAGE ||
        ctx->api->symbol_resolve(ctx->image, "puts", NULL, &symbol))
        return 0;
    return ctx->api->symbol_hide(ctx->image, &symbol);
}

__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI, .name = "hide", .help = "a definition that nobody finds",
    .options = options, .relocate = relocate, .run = run,
};
