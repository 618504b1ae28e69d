/* SPDX-License-Identifier: MIT
 *
 * read.c: reads the file that `list` names, in each stage, and logs it; and logs what is mapped.
 */
#include <mvld/pass.h>

static const struct mvld_option options[] = {
    {.name = "list", .type = MVLD_OPTION_FILE, .initial = "", .help = "a file that is read, and logged"},
    {.name = NULL},
};

static void read_list(const struct mvld_context *ctx, const char *stage)
{
    char *text = ctx->api->file_read(ctx, &ctx->settings[0], &(size_t){0});

    ctx->api->log(ctx->image, MVLD_LOG_PASSES, "list in %s: %s", stage, text ? text : ctx->api->last_error(ctx->image));
    ctx->api->release(ctx->image, text);
}

static int map(const struct mvld_context *ctx, const struct mvld_file *file)
{
    ctx->api->log(ctx->image, MVLD_LOG_PASSES, "maps %s", file->path);
    read_list(ctx, "map");
    return 0;
}

static int run(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    (void)objects;
    (void)n;
    read_list(ctx, "run");
    return 0;
}

__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI, .name = "read", .help = "reads a file", .options = options, .map = map, .run = run,
};
