/* SPDX-License-Identifier: MIT
 *
 * place.c: files lie where the user says: `at.NAME` is a distance from the executable, or an address, in
 * hexadecimal digits; and what must be refused.  `list` is a file that is read in each stage.
 */
#include "../ends_with.h"

#include <mvld/pass.h>

enum { FROM, LIST, AT };

static const char *const froms[] = {"executable", "nothing", NULL};
static const struct mvld_option options[] = {
    {.name = "from", .type = MVLD_OPTION_WORD, .words = froms, .initial = "executable"},
    {.name = "list", .type = MVLD_OPTION_FILE, .initial = "", .help = "a file that is read, and logged"},
    {.name = "at.", .type = MVLD_OPTION_PREFIX, .help = "where this file lies"},
    {.name = NULL},
};

static uintptr_t executable;

static uintptr_t number(const char *text)
{
    uintptr_t n = 0;
    int negative = *text == '-';

    for (text += negative; *text; text++)
        n = n * 16 + (uintptr_t)(*text >= 'a' ? *text - 'a' + 10 : *text - '0');
    return negative ? -n : n;
}

static void read_list(const struct mvld_context *ctx, const char *stage)
{
    char *text = *ctx->settings[LIST].text ? ctx->api->file_read(ctx, &ctx->settings[LIST], &(size_t){0}) : NULL;

    ctx->api->log(ctx->image, MVLD_LOG_PASSES, "list in %s: %s", stage, text ? text : ctx->api->last_error(ctx->image));
    ctx->api->release(ctx->image, text);
}

static int map(const struct mvld_context *ctx, const struct mvld_file *file)
{
    read_list(ctx, "map");
    if (file->flags & MVLD_OBJECT_MAIN)
        executable = file->address;
    for (size_t i = AT; i < ctx->n_settings; i++) {
        uintptr_t at = ctx->settings[FROM].number ? 0 : executable;

        if (ends_with(file->name, ctx->settings[i].name + 3) &&
            ctx->api->file_place(ctx, file, at + number(ctx->settings[i].text)))
            ctx->api->log(ctx->image, MVLD_LOG_PASSES, "%s", ctx->api->last_error(ctx->image));
    }
    return 0;
}

static int run(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    const struct mvld_file file = {.name = n ? objects[0]->name : ""};

    read_list(ctx, "run");
    if (ctx->api->file_place(ctx, &file, 0x10000) == -1)
        ctx->api->log(ctx->image, MVLD_LOG_PASSES, "%s", ctx->api->last_error(ctx->image));
    return 0;
}

__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI, .name = "place", .help = "files lie where the user says", .options = options,
    .map = map, .run = run,
};
