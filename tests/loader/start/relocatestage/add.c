/* SPDX-License-Identifier: MIT
 *
 * add.c: a library defines more than it was linked with: what `to` says of another object, or, without
 * that, a function of the pass that returns 42 and a variable that is 43; and, as `wrong` says, an edit
 * that must be refused.
 */
#include "../ends_with.h"

#include <mvld/pass.h>

enum { LIBRARY, TO, WRONG };
enum { NOTHING, TWICE, DEFINED, OUTSIDE, OLD, VERSION, KIND, DATA, STAGE, MANY };

static const char *const wrongs[] = {"nothing", "twice", "defined", "outside", "old", "version", "kind", "data",
                                     "stage", "many", NULL};

static const struct mvld_option options[] = {
    {.name = "library", .type = MVLD_OPTION_STRING, .initial = ""},
    {.name = "to", .type = MVLD_OPTION_STRING, .initial = ""},
    {.name = "wrong", .type = MVLD_OPTION_WORD, .words = wrongs, .initial = "nothing"},
    {.name = NULL},
};

static int add(const struct mvld_context *ctx, const struct mvld_object *object, const char *name,
               uintptr_t address, uint8_t type)
{
    return ctx->api->symbol_add(ctx, &(struct mvld_symbol){.name = name, .address = address, .size = 4,
                                                           .type = type, .binding = 1, .object = object});
}

static int add_new(const struct mvld_context *ctx, const struct mvld_object *object)
{
    static const uint8_t code[] = {0xb8, 42, 0, 0, 0, 0xc3}; /* mov $42, %eax; ret */
    uint8_t *function = ctx->api->section_add(ctx, MVLD_SECTION_CODE, sizeof code);
    int *variable = function ? ctx->api->section_add(ctx, MVLD_SECTION_DATA, sizeof *variable) : NULL;
    int error = variable ? 0 : -12;

    for (size_t i = 0; i < sizeof code && !error; i++)
        function[i] = code[i];
    if (!error)
        *variable = 43;
    error = error ? error : add(ctx, object, "missing", (uintptr_t)function, 2);
    error = error ? error : add(ctx, object, "maybe", (uintptr_t)function, 2);
    return error ? error : add(ctx, object, "number", (uintptr_t)variable, 1);
}

static int is_wrong(const struct mvld_context *ctx, const struct mvld_object *object, uintptr_t code)
{
    struct mvld_symbol symbol = {.name = "more", .address = code, .type = 2, .binding = 1, .object = object};
    char name[] = "many 0000";
    int error = 0;

    switch (ctx->settings[WRONG].number) {
    case TWICE:
        return add(ctx, object, "missing", code, 2);
    case DEFINED:
        return add(ctx, object, "other", code, 2);
    case OUTSIDE:
        return add(ctx, object, "more", 4096, 1);
    case DATA:
        return add(ctx, object, "more", (uintptr_t)object->dynamic, 2);
    case OLD:
        return add(ctx, ctx->api->object_at(ctx->image, 0), "more", code, 2);
    case VERSION:
        symbol.version = "V1";
        return ctx->api->symbol_add(ctx, &symbol);
    case KIND:
        return add(ctx, object, "more", code, 6 /* STT_TLS */);
    case MANY:
        for (int i = 0; i < 1000000 && !error; i++) {
            for (int digit = 0, rest = i; digit < 4; digit++, rest /= 20)
                name[5 + digit] = (char)('a' + rest % 20);
            error = add(ctx, object, name, code, 2);
        }
        return error;
    default:
        return 0;
    }
}

/* 0, or where the function is. */
static uintptr_t find(const struct mvld_context *ctx, const char *text)
{
    struct mvld_symbol symbol;

    return !ctx->api->symbol_resolve(ctx->image, text, NULL, &symbol) ? symbol.address : 0;
}

static int relocate(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *to = ctx->settings[TO].text;
        uintptr_t code = *to ? find(ctx, to) : 0;
        int error;

        if (!ends_with(objects[i]->name, ctx->settings[LIBRARY].text))
            continue;
        if (!*to)
            return add_new(ctx, objects[i]);
        if (!code)
            return ctx->api->fail(ctx->image, 2, "add: %s is not there", to);
        error = add(ctx, objects[i], "missing", code, 2);
        error = error ? error : add(ctx, objects[i], "maybe", code, 2);
        return error ? error : is_wrong(ctx, objects[i], code);
    }
    return 0;
}

struct seen {
    const struct mvld_context *ctx;
    size_t n;
};

static int see(void *cookie, const struct mvld_symbol *symbol)
{
    struct seen *seen = cookie;

    seen->ctx->api->log(seen->ctx->image, MVLD_LOG_PASSES, "add: it defines %s", symbol->name);
    return 0;
}

static int run(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    struct seen seen = {ctx, 0};

    for (size_t i = 0; i < n; i++)
        if (ends_with(objects[i]->name, ctx->settings[LIBRARY].text)) {
            ctx->api->symbol_each(objects[i], see, &seen);
            return ctx->settings[WRONG].number == STAGE ? add(ctx, objects[i], "more", 4096, 2) : 0;
        }
    return 0;
}

__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI, .name = "add", .help = "a library defines more than it was linked with",
    .options = options, .relocate = relocate, .run = run,
};
