/* SPDX-License-Identifier: MIT
 *
 * pass.c: removes one function by its name, and says what came of it; with `fail` it fails then.  With `first` what
 * earlier passes want is made first.  With `leads` it removes nothing: calls of `used` lead to that function.  With
 * `splice` code of it that ends the program runs inside of `used`.
 */
#include <mvld/freestanding.h>
#include <mvld/pass.h>

#ifndef PASS
#define PASS "remove"
#endif
#ifndef LIBRARY
#define LIBRARY NULL
#endif

enum { NAME, EXPORTED, FAIL, FIRST, LEADS, SPLICE, DETOUR };

static const struct mvld_option options[] = {
    {.name = "name", .type = MVLD_OPTION_STRING, .initial = "unused"},
    {.name = "exported", .type = MVLD_OPTION_BOOL, .initial = "yes"},
    {.name = "fail", .type = MVLD_OPTION_BOOL, .initial = "no"},
    {.name = "first", .type = MVLD_OPTION_BOOL, .initial = "no"},
    {.name = "leads", .type = MVLD_OPTION_BOOL, .initial = "no"},
    {.name = "splice", .type = MVLD_OPTION_BOOL, .initial = "no"},
    {.name = "detour", .type = MVLD_OPTION_BOOL, .initial = "no", .help = "calls inside objects go over new code"},
    {.name = NULL},
};

static uintptr_t led_to;

static const char *lead(const struct mvld_context *ctx, const struct mvld_object *object,
                        const struct mvld_binding *bound, uintptr_t *target)
{
    struct mvld_symbol used;

    (void)object;
    if (ctx->api->symbol_resolve(ctx->image, "used", NULL, &used) || bound->found != used.address)
        return "it is another call";
    *target = led_to;
    return NULL;
}

static void stop(void *unused)
{
    (void)unused;
    __builtin_trap();
}

/* Before the first instruction for which that is possible. */
static int splice(void *cookie, const struct mvld_instruction *i)
{
    const struct mvld_context *ctx = cookie;

    return !ctx->api->code_splice(ctx, i->address, stop, NULL);
}

static int remove_one(void *cookie, const struct mvld_function *f)
{
    const struct mvld_context *ctx = cookie;
    const struct mvld_api *api = ctx->api;
    uint32_t flags = ctx->settings[EXPORTED].number ? MVLD_REMOVE_EXPORTED : 0;
    int error;

    if (f->name && ctx->settings[SPLICE].number && !mvld_strcmp(f->name, "used")) {
        const char *why;

        api->instruction_each(ctx->image, f, splice, cookie, &why);
    }
    if (!f->name || mvld_strcmp(f->name, ctx->settings[NAME].text))
        return 0;
    if (ctx->settings[LEADS].number) {
        led_to = f->entry;
        return 0;
    }
    error = api->code_remove(ctx, f, flags);
    api->log(ctx->image, MVLD_LOG_PASSES, "remove: %s: %d twice %d wrong %d %d: %s", f->name, error,
             api->code_remove(ctx, f, flags), api->code_remove(ctx, f, 8),
             api->code_remove(ctx, &(struct mvld_function){.entry = f->entry + 1}, flags), api->last_error(ctx->image));
    return 0;
}

/* e9 rel32    jmp target */
static int detour(void *cookie, const struct mvld_reference *r)
{
    const struct mvld_context *ctx = cookie;
    uint8_t *code = ctx->api->section_add(ctx, MVLD_SECTION_CODE, 5);

    if (code) {
        code[0] = 0xe9;
        *(int32_t *)(code + 1) = (int32_t)(r->target - (uintptr_t)(code + 5));
        ctx->api->reference_retarget(ctx, r, (uintptr_t)code);
    }
    return !code;
}

static int run(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    struct mvld_batch *batch = ctx->settings[FIRST].number ? ctx->api->patch_begin(ctx->image) : NULL;
    const char *why;

    if (batch)
        ctx->api->patch_end(batch);
    for (size_t i = 0; i < n && ctx->settings[DETOUR].number; i++)
        if (!objects[i]->why)
            ctx->api->reference_each(ctx->image, objects[i], MVLD_REFERENCES(MVLD_REFERENCE_CALL), detour, (void *)ctx, &why);
    for (size_t i = 0; i < n; i++)
        if (!objects[i]->why)
            ctx->api->function_each(ctx->image, objects[i], remove_one, (void *)ctx, &why);
    for (size_t i = 0; i < n && led_to; i++)
        if (objects[i]->flags & MVLD_OBJECT_MAIN && ctx->api->calls_retarget(ctx, objects[i], lead))
            return -1;
    return ctx->settings[FAIL].number ? ctx->api->fail(ctx->image, 1, "it fails") : 0;
}

__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI, .name = PASS, .help = "removes a function", .options = options, .run = run, .library = LIBRARY,
    .flags = MVLD_PASS_ANALYSIS,
};
