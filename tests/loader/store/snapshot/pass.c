/* SPDX-License-Identifier: MIT
 *
 * A pass whose work a snapshot can hold: each `answer` becomes 2, because `word` leads where
 * it does.  With -DLIBRARY it brings a library that is left out where address space is limited.
 */
#include <mvld/pass.h>

static int change(const struct mvld_context *ctx, const struct mvld_object *object)
{
    static const uint8_t one[] = {0xb8, 1, 0, 0, 0, 0xc3}; /* mov $1, %eax; ret */
    static const uint8_t two[] = {0xb8, 2, 0, 0, 0, 0xc3};
    struct mvld_symbol answer, word;
    struct mvld_patch_report report;
    struct mvld_batch *batch;
    int error;

    if (ctx->api->symbol_find(object, "answer", NULL, &answer) ||
        ctx->api->symbol_find(object, "word", NULL, &word))
        return 0;
    batch = ctx->api->patch_begin(ctx->image);
    if (!batch)
        return -12;
    error = ctx->api->patch_add(batch, answer.address, one, two, sizeof one);
    if (!error)
        error = ctx->api->patch_commit(batch, &report);
    ctx->api->patch_end(batch);
    return error ? error : ctx->api->depends(ctx->image, object, word.address);
}

static int run(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    int error = 0;

    for (size_t i = 0; !error && i < n; i++)
        error = change(ctx, objects[i]);
    return error;
}

static const struct mvld_option options[] = {
    {.name = "note.", .type = MVLD_OPTION_PREFIX},
    {.name = "file", .type = MVLD_OPTION_FILE},
    {.name = "gone", .type = MVLD_OPTION_GONE, .help = "what an earlier version had"},
    {.name = NULL}};

__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI,
    .name = "answer",
    .help = "changes an answer",
    .options = options,
    .run = run,
#ifdef LIBRARY
    .library = LIBRARY,
    .flags = MVLD_PASS_ANALYSIS | MVLD_PASS_FREEZES | MVLD_PASS_MOVES,
#else
    .flags = MVLD_PASS_ANALYSIS | MVLD_PASS_FREEZES,
#endif
};
