/* SPDX-License-Identifier: MIT
 *
 * brings.c: interposes getppid by a function of the library that it brings, when it has seen libc's, which that
 * function calls by another name; and adds a symbol to the library whenever an object comes behind it.
 */
#include "../ends_with.h"

#include <mvld/pass.h>

static int add(const struct mvld_context *ctx, const struct mvld_object *to, const char *name,
               const struct mvld_symbol *function)
{
    struct mvld_symbol new = *function;

    new.name = name;
    new.version = NULL;
    new.binding = 1; /* STB_GLOBAL */
    new.object = to;
    return ctx->api->symbol_add(ctx, &new);
}

static int interpose(const struct mvld_context *ctx, const struct mvld_object *object, const struct mvld_object *brought)
{
    static char name[] = "seen_a";
    struct mvld_symbol mine, real;
    int error = ctx->api->symbol_find(brought, "mine", NULL, &mine);

    error = error ? error : add(ctx, brought, name, &mine);
    name[5]++;
    if (error || ctx->api->symbol_find(object, "getppid", NULL, &real))
        return error;
    error = add(ctx, brought, "getppid", &mine);
    return error ? error : add(ctx, brought, "real_getppid", &real);
}

static int relocate(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (ends_with(objects[i]->name, "/libbrought.so"))
            *ctx->state = (void *)objects[i];
        else if (*ctx->state)
            return interpose(ctx, objects[i], *ctx->state);
    }
    return 0;
}

__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI, .name = "brings", .help = "a function of its library in place of libc's",
    .relocate = relocate, .library = "libbrought.so",
};
