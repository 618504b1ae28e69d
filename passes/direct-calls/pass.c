/* SPDX-License-Identifier: MIT
 *
 * pass.c: makes calls through PLT and GOT direct, before the first constructor runs, and in later
 * objects before their constructors.  README.md has the picture.
 *
 * The pass decides which calls may become direct.  The image finds their targets and changes the
 * code, original or moved (calls_retarget).
 */
#include "cold.h"

enum { DIRECT, LEAVE }; /* words of the first option */

static const char *const rewritable[] = {"direct", "leave", NULL};

static const struct mvld_option options[] = {
    {.name = "rewritable", .type = MVLD_OPTION_WORD, .words = rewritable, .initial = "direct",
     .help = "calls through slots that stay writable, as those of lazy binding do"},
    {.name = "inline", .type = MVLD_OPTION_GONE, .help = "it brought no gain that could be measured"},
    {.name = NULL},
};

static const char *rule(const struct mvld_context *ctx, const struct mvld_object *object,
                        const struct mvld_binding *bound, uintptr_t *target)
{
    if (ctx->settings[0].number == LEAVE && !(bound->flags & MVLD_SLOT_RELRO))
        return "the slot stays writable (rewritable = leave)";
    *target = bound->target;
    return bound->holder && cold_is(ctx, object, bound)
               ? "such calls run once, or when the program fails: not worth a page" : NULL;
}

static int run(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    int error = 0;

    for (size_t i = 0; i < n && !error; i++)
        error = ctx->api->calls_retarget(ctx, objects[i], rule);
    return error;
}

__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI,
    .name = "direct-calls",
    .help = "calls between objects go straight to their targets",
    .options = options,
    .run = run,
    .flags = MVLD_PASS_ANALYSIS | MVLD_PASS_FREEZES,
};
