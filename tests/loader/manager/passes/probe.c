/* SPDX-License-Identifier: MIT
 *
 * A pass whose declarations and results come from the compiler's command line; for
 * pipeline.c.  It says through the log when it is called.
 */
#include <mvld/pass.h>

#ifndef RESULT
#define RESULT 0
#endif

static const char *const words[] = {"slow", "fast", NULL};
static const struct mvld_option options[] = {
    {.name = "flag", .type = MVLD_OPTION_BOOL, .initial = "yes"},
    {.name = "number", .type = MVLD_OPTION_INT, .min = -5, .max = 100, .initial = "7"},
    {.name = "speed", .type = MVLD_OPTION_WORD, .words = words, .initial = "fast"},
    {.name = "text", .type = MVLD_OPTION_STRING},
    {.name = "set.", .type = MVLD_OPTION_PREFIX},
    {.name = NULL},
};
#ifdef BEHIND
static const char *const behind[] = {BEHIND, NULL};
#endif

static int run(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    static int calls; /* in .bss: proves that it is mapped, zeroed and writable */

    (void)objects;
    if (ctx->later) {
        ctx->api->log(ctx->image, MVLD_LOG_PASSES, NAME " added %zu after %d", n, *(int *)*ctx->state);
        return 0;
    }
    *ctx->state = &calls;
    calls++;
    for (size_t i = 0; i < ctx->n_settings; i++)
        ctx->api->log(ctx->image, MVLD_LOG_PASSES, NAME ".%s = %s (%ld)", ctx->settings[i].name,
                      ctx->settings[i].text ? ctx->settings[i].text : "none",
                      (long)ctx->settings[i].number);
    if (RESULT < 0)
        return ctx->api->fail(ctx->image, -RESULT, "%s does not want to", NAME);
    return RESULT;
}

static void removed(const struct mvld_context *ctx, const struct mvld_object *const *objects,
                    size_t n)
{
    (void)objects;
    ctx->api->log(ctx->image, MVLD_LOG_PASSES, NAME " removed %zu", n);
}

#ifdef IDLE
static const char *idle(const struct mvld_setting *settings, size_t n)
{
    return n && settings[0].number ? "its flag says so" : NULL;
}
#endif

__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI,
    .name = NAME,
    .help = "a probe",
#ifdef LIBRARY
    .library = LIBRARY,
#endif
    .options = options,
    .run = run,
    .removed = removed,
#ifdef IDLE
    .idle = idle,
#endif
#ifdef BEHIND
    .behind = behind,
#endif
};
