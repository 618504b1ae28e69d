/* SPDX-License-Identifier: MIT
 *
 * count-instructions.c: counts how often each instruction of a function is executed:
 *     [count-instructions]
 *     function = libz.so.1:crc32
 *
 * MVLD_DEBUG=passes names the counters: an address and a number each.  Instructions that cannot be counted
 * are not changed, and the log says why.
 */
#include <mvld/pass.h>

enum { FUNCTION };

static const struct mvld_option options[] = {
    {.name = "function", .type = MVLD_OPTION_SYMBOL, .help = "LIBRARY:SYMBOL, the function"},
    {.name = NULL},
};

struct counter { uintptr_t address; uint64_t executed; };
struct counting { const struct mvld_context *ctx; struct counter *list; size_t n, counted; };

static void count(void *counter)
{
    __atomic_fetch_add(&((struct counter *)counter)->executed, 1, __ATOMIC_RELAXED);
}

static int measure(void *cookie, const struct mvld_instruction *i)
{
    (void)i;
    ((struct counting *)cookie)->n++;
    return 0;
}

static int splice(void *cookie, const struct mvld_instruction *i)
{
    struct counting *c = cookie;
    struct counter *counter = &c->list[c->counted];
    const struct mvld_api *api = c->ctx->api;

    counter->address = i->address;
    if (api->code_splice(c->ctx, i->address, count, counter))
        api->log(c->ctx->image, MVLD_LOG_PASSES, "%s", api->last_error(c->ctx->image));
    else
        c->counted++;
    return 0;
}

static int run(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    const struct mvld_api *api = ctx->api;
    struct counting c = {.ctx = ctx};
    struct mvld_function function;
    struct mvld_symbol symbol;
    const char *why;
    size_t i = 0;

    if (!ctx->settings[FUNCTION].text)
        return api->fail(ctx->image, 22 /* EINVAL */, "count-instructions: 'function' says what is counted");
    if (api->setting_symbol(ctx, &ctx->settings[FUNCTION], &symbol))
        return 0;
    while (i < n && objects[i] != symbol.object)
        i++;
    if (i == n) /* it came before */
        return 0;
    if (api->function_find(ctx->image, symbol.address, &function) ||
        api->instruction_each(ctx->image, &function, measure, &c, &why))
        return api->fail(ctx->image, 61 /* ENODATA */, "count-instructions: %s is not proven: run mvld analyze",
                         symbol.name);
    c.list = api->alloc(ctx->image, c.n * sizeof *c.list);
    if (!c.list)
        return -12 /* ENOMEM */;
    api->instruction_each(ctx->image, &function, splice, &c, &why);
    api->log(ctx->image, MVLD_LOG_PASSES, "count-instructions: %s: %zu of %zu instructions are counted at %p",
             symbol.name, c.counted, c.n, (void *)c.list);
    return 0;
}

__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI, .name = "count-instructions", .help = "counts executed instructions of a function",
    .options = options, .run = run, .library = "libconcat.so.1", .flags = MVLD_PASS_ANALYSIS,
};
