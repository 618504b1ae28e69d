/* SPDX-License-Identifier: MIT
 *
 * names.c: says of each object, in each stage, what it is called, where its file is, and whether it came by dlopen.
 */
#include <mvld/pass.h>

static int map(const struct mvld_context *ctx, const struct mvld_file *file)
{
    ctx->api->log(ctx->image, MVLD_LOG_PASSES, "names: %s = %s", file->name, file->path);
    return 0;
}

static int say(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char *path = ctx->api->object_path(ctx->image, objects[i]);

        ctx->api->log(ctx->image, MVLD_LOG_PASSES, "names: %s = %s", objects[i]->name, path ? path : "");
        ctx->api->log(ctx->image, MVLD_LOG_PASSES, "later: %d %s", ctx->later, objects[i]->name);
        ctx->api->release(ctx->image, path);
    }
    return 0;
}

__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI, .name = "names", .help = "what objects are called",
    .map = map, .relocate = say, .run = say,
};
