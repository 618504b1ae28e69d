/* SPDX-License-Identifier: MIT
 *
 * remember.c: reads the symbols of all objects whenever one comes, remembers each, and forgets those that it
 * is told are gone.  Ends the program (ud2) when it is told of one that it does not know, when a symbol of one
 * that is gone is found, or when the image has another number of objects than it remembers.
 */
#include <mvld/pass.h>

struct known {
    struct known *next;
    const struct mvld_object *object;
};

static int count(void *cookie, const struct mvld_symbol *symbol)
{
    *(size_t *)cookie += symbol->address != 0;
    return 0;
}

static int relocate(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    size_t symbols = 0, n_known = 0;

    for (size_t i = 0; i < n; i++) {
        struct known *new = ctx->api->alloc(ctx->image, sizeof *new);

        if (!new)
            return -12;
        *new = (struct known){*ctx->state, objects[i]};
        *ctx->state = new;
    }
    for (const struct known *known = *ctx->state; known; known = known->next, n_known++)
        ctx->api->symbol_each(known->object, count, &symbols);
    if (n_known != ctx->api->object_count(ctx->image))
        __builtin_trap();
    return 0;
}

static void removed(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    struct mvld_symbol symbol;

    for (size_t i = 0; i < n; i++) {
        struct known **at = (struct known **)ctx->state, *known;

        while (*at && (*at)->object != objects[i])
            at = &(*at)->next;
        known = *at;
        if (!known || !ctx->api->symbol_find(objects[i], "answer", NULL, &symbol))
            __builtin_trap();
        *at = known->next;
        ctx->api->release(ctx->image, known);
    }
}

__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI, .name = "remember", .help = "knows all objects that are mapped",
    .relocate = relocate, .removed = removed,
};
