/* SPDX-License-Identifier: MIT
 *
 * names.c: says of each object, in each stage, what it is called, before it is mapped where its file is, and then
 * whether it came by dlopen.
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
        ctx->api->log(ctx->image, MVLD_LOG_PASSES, "names: %s", objects[i]->name);
        ctx->api->log(ctx->image, MVLD_LOG_PASSES, "later: %d %s", ctx->later, objects[i]->name);
    }
    return 0;
}

__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI, .name = "names", .help = "what objects are called",
    .map = map, .relocate = say, .run = say,
};
