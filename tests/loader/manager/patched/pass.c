/* SPDX-License-Identifier: MIT
 *
 * A pass that changes code of libpatched.so, byte by byte: `answer` becomes 2, `answer` with the bytes behind it,
 * or the call in `outer` becomes 40.  Or of libc a function that nobody calls.
 */
#include <mvld/freestanding.h>
#include <mvld/pass.h>

enum { WHAT, PLACES, LOOK };
enum { ANSWER, WIDE, OUTER, LIBC };
enum { MAPPED, ALL };

static const char *const whats[] = {"answer", "wide", "outer", "libc", NULL};
static const char *const places[] = {"mapped", "all", NULL};

static const struct mvld_option options[] = {
    {.name = "what", .type = MVLD_OPTION_WORD, .words = whats, .initial = "answer", .help = "which code"},
    {.name = "places", .type = MVLD_OPTION_WORD, .words = places, .initial = "mapped",
     .help = "where it was mapped, or also where it moved to"},
    {.name = "look", .type = MVLD_OPTION_BOOL, .initial = "no", .help = "read the analysis first"},
    {.name = NULL},
};

static int skip(void *cookie, const struct mvld_reference *reference)
{
    (void)cookie;
    (void)reference;
    return 0;
}

static size_t length_of(int what)
{
    return what == WIDE ? 8 : 5; /* mov $imm32, %eax, and ret with padding; or call rel32 */
}

static int add(const struct mvld_context *ctx, struct mvld_batch *batch, uintptr_t at)
{
    int what = (int)ctx->settings[WHAT].number;
    uint8_t mov[8];

    memcpy(mov, (const void *)at, sizeof mov);
    mov[0] = 0xb8;
    mov[1] = what == OUTER ? 40 : 2;
    mov[2] = mov[3] = mov[4] = 0;
    return ctx->api->patch_add(batch, at, (const void *)at, mov, length_of(what));
}

static int patch(const struct mvld_context *ctx, uintptr_t at)
{
    struct mvld_batch *batch = ctx->api->patch_begin(ctx->image);
    struct mvld_patch_report report;
    uintptr_t moved = 0;
    int error = -12, runs;

    if (!batch)
        return error;
    runs = ctx->api->moved_find(ctx->image, at, 5, &moved);
    if (ctx->settings[PLACES].number == MAPPED || runs)
        error = add(ctx, batch, at);
    if (ctx->settings[PLACES].number == ALL && moved)
        error = add(ctx, batch, moved);
    error = error ? error : ctx->api->patch_commit(batch, &report);
    ctx->api->log(ctx->image, MVLD_LOG_PASSES, "splice: result %d", ctx->api->patch_at(batch, 0)->result);
    ctx->api->patch_end(batch);
    return error;
}

static int run(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    static const char *const names[] = {"patched_answer", "patched_answer", "patched_outer", "l64a"};
    const char *why;

    for (size_t i = 0; i < n; i++) {
        struct mvld_symbol symbol;

        if (ctx->api->symbol_find(objects[i], names[ctx->settings[WHAT].number], NULL, &symbol))
            continue;
        if (ctx->settings[LOOK].number)
            ctx->api->reference_each(ctx->image, objects[i], MVLD_REFERENCES(MVLD_REFERENCE_LEA), skip, NULL, &why);
        return patch(ctx, symbol.address + (ctx->settings[WHAT].number == OUTER ? 4 : 0));
    }
    return 0;
}

/* Not here: the image that knows where code runs is another one. */
static int relocate(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    (void)objects;
    (void)n;
    ctx->api->log(ctx->image, MVLD_LOG_PASSES, "splice: %s batch before run",
                  ctx->api->patch_begin(ctx->image) ? "a" : "no");
    return 0;
}

__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI, .name = "splice", .help = "changes code", .options = options, .relocate = relocate,
    .run = run, .flags = MVLD_PASS_ANALYSIS};
