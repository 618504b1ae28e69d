/* SPDX-License-Identifier: MIT
 *
 * returns.c: makes a function return a number at once, whoever calls it, and by whatever pointer:
 *     [returns]
 *     function = getuid
 *     value = 0
 *
 * It is the first definition of that name in the program.  Its first instructions are patched, and a snapshot holds
 * that.
 */
#include <mvld/freestanding.h>
#include <mvld/pass.h>

enum { FUNCTION, VALUE };

static const struct mvld_option options[] = {
    {.name = "function", .type = MVLD_OPTION_STRING, .initial = "", .help = "its name"},
    {.name = "value", .type = MVLD_OPTION_INT, .min = INT32_MIN, .max = INT32_MAX, .initial = "0",
     .help = "what it returns"},
    {.name = NULL},
};

/* Where the code was mapped, if that runs, and where it was moved to, if it was: both or none. */
static int patch(const struct mvld_context *ctx, uintptr_t at)
{
    const struct mvld_api *api = ctx->api;
    uint8_t code[6] = {0xb8, 0, 0, 0, 0, 0xc3}; /* mov $value, %eax; ret */
    struct mvld_batch *batch = api->patch_begin(ctx->image);
    struct mvld_patch_report report = {0};
    uintptr_t moved = 0;
    int error = 0;

    if (!batch)
        return -12 /* ENOMEM */;
    memcpy(code + 1, &(int32_t){(int32_t)ctx->settings[VALUE].number}, 4);
    if (api->moved_find(ctx->image, at, sizeof code, &moved))
        error = api->patch_add(batch, at, (const void *)at, code, sizeof code);
    if (!error && moved)
        error = api->patch_add(batch, moved, (const void *)moved, code, sizeof code);
    if (!error)
        error = api->patch_commit(batch, &report);
    if (!error && report.refused)
        error = api->patch_at(batch, 0)->result ? api->patch_at(batch, 0)->result : api->patch_at(batch, 1)->result;
    api->patch_end(batch);
    return error;
}

static int change(const struct mvld_context *ctx, const struct mvld_symbol *symbol)
{
    static const uint8_t endbr64[4] = {0xf3, 0x0f, 0x1e, 0xfa};
    uintptr_t at = symbol->address;
    int error;

    if (symbol->type != 2 /* STT_FUNC */ || symbol->size < 10)
        return ctx->api->fail(ctx->image, 22 /* EINVAL */, "returns: %s is no function of at least 10 bytes", symbol->name);
    at += memcmp((const void *)at, endbr64, sizeof endbr64) ? 0 : sizeof endbr64;
    /* Nothing else decides what the code becomes.  An object that no snapshot can hold is not changed for one. */
    error = ctx->api->depends(ctx->image, symbol->object, 0);
    error = error ? error : patch(ctx, at);
    return error ? ctx->api->fail(ctx->image, -error, "returns: the code of %s in %s cannot be changed", symbol->name,
                                  symbol->object->name) : 0;
}

static int run(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    struct mvld_symbol symbol;

    if (ctx->api->symbol_resolve(ctx->image, ctx->settings[FUNCTION].text, NULL, &symbol))
        return 0; /* a dlopen may bring it */
    for (size_t i = 0; i < n; i++)
        if (objects[i] == symbol.object)
            return change(ctx, &symbol);
    return 0;
}

__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI, .name = "returns", .help = "a function returns a number at once", .options = options, .run = run,
    .flags = MVLD_PASS_ANALYSIS | MVLD_PASS_FREEZES,
};
