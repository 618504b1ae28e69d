/* SPDX-License-Identifier: MIT
 *
 * bind.c: binds a symbol of one library to a function of another:
 *     [bind]
 *     from = libz.so.1:crc32
 *     to = libfast.so:fast_crc32
 * Without `to` the symbol is hidden: look-ups go on to the next library that defines it.
 */
#include <mvld/pass.h>

enum { FROM, TO };

static const struct mvld_option options[] = {
    {.name = "from", .type = MVLD_OPTION_SYMBOL, .help = "LIBRARY:SYMBOL, whose look-ups find another function"},
    {.name = "to", .type = MVLD_OPTION_SYMBOL, .help = "LIBRARY:SYMBOL, the function; otherwise none is found there"},
    {.name = NULL},
};

/* Called for whichever of the two comes last. */
static int relocate(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    struct mvld_symbol from, to = {.object = NULL};
    if (!ctx->settings[FROM].text)
        return ctx->api->fail(ctx->image, 22 /* EINVAL */, "bind: 'from' says what is bound");
    int missing = ctx->api->setting_symbol(ctx, &ctx->settings[FROM], &from), hides = !ctx->settings[TO].text;
    missing |= !hides && ctx->api->setting_symbol(ctx, &ctx->settings[TO], &to);
    for (size_t i = 0; i < n && !missing; i++)
        if (objects[i] == from.object || objects[i] == to.object)
            return hides ? ctx->api->symbol_hide(ctx->image, &from) : ctx->api->symbol_bind(ctx->image, &from, &to);
    return 0;
}

__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI, .name = "bind", .help = "a symbol leads to another library's function, or is hidden",
    .options = options, .relocate = relocate,
};
