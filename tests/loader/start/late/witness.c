/* SPDX-License-Identifier: MIT
 *
 * A pass that leaves its mark in each object that asks for it: `mark` in the
 * object becomes how many times the pass was told of it, and is set to WRONG when
 * the object was not relocated yet or one of its constructors had run.  `gone` in
 * the executable counts the objects that were reported as removed.  An object with
 * `holds` is waited for until `held` in the executable is no longer 1.
 */
#include <mvld/pass.h>

#define WRONG 1000

static int *number(const struct mvld_context *ctx, const struct mvld_object *object,
                   const char *name)
{
    struct mvld_symbol symbol;

    if (ctx->api->symbol_find(object, name, NULL, &symbol))
        return NULL;
    return (int *)symbol.address;
}

static void mark(const struct mvld_context *ctx, const struct mvld_object *object)
{
    int *mark = number(ctx, object, "mark"), *ran = number(ctx, object, "ran");
    int **pointer = (int **)number(ctx, object, "pointer_to_mark");

    if (mark)
        *mark += (ran && *ran) || (pointer && *pointer != mark) ? WRONG : 1;
}

static int run(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    volatile int *held = number(ctx, ctx->api->object_at(ctx->image, 0), "held");

    for (size_t i = 0; i < n; i++) {
        mark(ctx, objects[i]);
        if (!held || !number(ctx, objects[i], "holds"))
            continue;
        for (*held = 1; *held == 1;)
            ;
    }
    return 0;
}

static void removed(const struct mvld_context *ctx, const struct mvld_object *const *objects,
                    size_t n)
{
    int *gone = number(ctx, ctx->api->object_at(ctx->image, 0), "gone");

    (void)objects;
    if (gone)
        *gone += (int)n;
}

const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI,
    .name = "witness",
    .help = "marks objects",
    .run = run,
    .removed = removed,
};
