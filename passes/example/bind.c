/* SPDX-License-Identifier: MIT
 *
 * bind.c: a symbol of one library leads to a function of another:
 *     [bind]
 *     from = libz.so.1:crc32
 *     to = libfast.so:fast_crc32
 */
#include <mvld/pass.h>

enum { FROM, TO };

static const struct mvld_option options[] = {
    {.name = "from", .type = MVLD_OPTION_STRING, .help = "LIBRARY:SYMBOL, whose look-ups find another function"},
    {.name = "to", .type = MVLD_OPTION_STRING, .help = "LIBRARY:SYMBOL, the function"},
    {.name = NULL},
};

/* Behind the colon, when the object's file is called as it says before it; or NULL. */
static const char *symbol_in(const struct mvld_object *object, const char *text)
{
    const char *file = object->name;
    for (const char *p = file; *p; p++)
        file = *p == '/' ? p + 1 : file;
    while (*file && *file == *text)
        file++, text++;
    return !*file && *text == ':' ? text + 1 : NULL;
}

/* 1: it is there; *out is its definition. */
static int find_symbol(const struct mvld_context *ctx, int setting, struct mvld_symbol *out)
{
    for (size_t i = 0; i < ctx->api->object_count(ctx->image); i++) {
        const struct mvld_object *object = ctx->api->object_at(ctx->image, i);
        const char *name = symbol_in(object, ctx->settings[setting].text);
        if (name && !ctx->api->symbol_find(object, name, NULL, out))
            return 1;
    }
    return 0;
}

/* Whichever of the two comes last. */
static int relocate(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    struct mvld_symbol from, to;
    if (!ctx->settings[FROM].text || !ctx->settings[TO].text)
        return ctx->api->fail(ctx->image, 22 /* EINVAL */, "bind: 'from' and 'to' say what is bound");
    for (size_t i = 0; i < n; i++)
        if (symbol_in(objects[i], ctx->settings[FROM].text) || symbol_in(objects[i], ctx->settings[TO].text))
            return find_symbol(ctx, FROM, &from) && find_symbol(ctx, TO, &to)
                       ? ctx->api->symbol_bind(ctx->image, &from, &to) : 0;
    return 0;
}

__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI, .name = "bind", .help = "a symbol leads to another library's function",
    .options = options, .relocate = relocate,
};
