/* SPDX-License-Identifier: MIT
 *
 * pass.c: decides which code moves, and in which order; the image moves it (fragment_move of
 * mvld/pass.h).  README.md has the picture.
 */
#include "concat.h"

#include <errno.h> /* numbers only */

#define MANY_HOT (8u << 20) /* bytes of code from which huge pages pay (DECISIONS.md) */

static const char *const orders[] = {"as-loaded", "random", "random-functions", "profile",
                                     NULL}; /* order.c has a function for each */
static const char *const moves[] = {"where-it-pays", "always", NULL};
enum { WHERE_IT_PAYS, ALWAYS };
static const char *const pages[] = {"small", "thp", "quick", NULL}; /* enum mvld_pages */

static const struct mvld_option options[] = {
    {.name = "order", .type = MVLD_OPTION_WORD, .words = orders, .initial = "as-loaded",
     .help = "in which order the objects' code, or their functions, lie in the region"},
    {.name = "leave", .type = MVLD_OPTION_STRING, .initial = "",
     .help = "objects that stay where they are: file names, separated by commas"},
    {.name = "debugger", .type = MVLD_OPTION_BOOL, .initial = "yes",
     .help = "debuggers find names and frames of moved code"},
    {.name = "perf-map", .type = MVLD_OPTION_BOOL, .initial = "no",
     .help = "perf finds names of moved code, in /tmp/perf-PID.map"},
    {.name = "pages", .type = MVLD_OPTION_WORD, .words = pages, .initial = "quick",
     .help = "of code that fills huge pages: huge ones (thp), the same if the kernel has them at once (quick), small"},
    {.name = "profile", .type = MVLD_OPTION_FILE, .initial = "",
     .help = "a file that names the hot functions, for order = profile"},
    {.name = "copy", .type = MVLD_OPTION_WORD, .words = moves, .initial = "where-it-pays",
     .help = "code moves where an order or pages are asked for that only moved code has, or always"},
    {.name = NULL},
};

/* ---- which ----------------------------------------------------------------------- */

/* "libc.so.6, bash" */
static int is_listed(const char *list, const char *name)
{
    size_t size = mvld_strlen(name);

    while (*list) {
        size_t n = 0;

        while (*list == ' ' || *list == ',')
            list++;
        while (list[n] && list[n] != ',' && list[n] != ' ')
            n++;
        if (n && n == size && mvld_strncmp(list, name, n) == 0)
            return 1;
        list += n;
    }
    return 0;
}

static void report_stay(const struct mvld_context *ctx, const struct mvld_object *object, int whole,
                        const char *why)
{
    ctx->api->log(ctx->image, MVLD_LOG_PASSES, "concat: %s: %s: %s", object->name,
                  whole ? "stays where it is" : "a part of it stays where it is", why);
}

/* The objects that may move. */
static const struct mvld_object **choose(const struct mvld_context *ctx,
                                         const struct mvld_object *const *objects, size_t *n)
{
    const struct mvld_object **chosen = ctx->api->alloc(ctx->image, (*n + 1) * sizeof *chosen);
    size_t kept = 0;

    for (size_t i = 0; chosen && i < *n; i++)
        if (is_listed(ctx->settings[CONCAT_LEAVE].text, mvld_file_name(objects[i]->name)))
            report_stay(ctx, objects[i], 1, "so configured (leave)");
        else
            chosen[kept++] = objects[i];
    *n = kept;
    return chosen;
}

/* ---- in which pages ------------------------------------------------------------------ */

static enum mvld_pages configured_pages(const struct mvld_setting *settings)
{
    return (enum mvld_pages)settings[CONCAT_PAGES].number;
}

/* Whether the hot code of a profile is large enough for huge pages. */
static int is_large(const struct mvld_context *ctx, const struct concat_plan *plan)
{
    return configured_pages(ctx->settings) == MVLD_PAGES_QUICK && plan->hot >= MANY_HOT;
}

static enum mvld_pages wanted_pages(const struct mvld_context *ctx, const struct concat_plan *plan)
{
    if (!is_large(ctx, plan))
        return configured_pages(ctx->settings);
    ctx->api->log(ctx->image, MVLD_LOG_PASSES,
                  "concat: the hot functions take %zu KB: these in huge pages (as with pages = thp)",
                  plan->hot / 1024);
    return MVLD_PAGES_HOT;
}

/* ---- the pass ------------------------------------------------------------------------ */

/* An object that does not fit stays. */
static void move(const struct mvld_context *ctx, const struct concat_plan *plan)
{
    const struct mvld_object *said = NULL;

    for (size_t i = 0; i < plan->n; i++) {
        const struct concat_item *item = &plan->items[i];
        int whole = !item->fragment.size;
        const char *why;
        int error = ctx->api->fragment_move(ctx->image, item->object, whole ? NULL : &item->fragment,
                                            item->gap, i < plan->n_hot ? MVLD_MOVE_HOT : 0, &why);

        if (error && said != item->object)
            report_stay(ctx, item->object, whole, why);
        said = error ? item->object : said;
    }
    if (plan->n_hot)
        ctx->api->log(ctx->image, MVLD_LOG_PASSES, "concat: %zu hot functions come first",
                      plan->n_hot);
}

static int run(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    const struct mvld_setting *settings = ctx->settings;
    uint32_t names = (settings[CONCAT_DEBUGGER].number ? MVLD_NAMES_DEBUGGERS : 0) |
                     (settings[CONCAT_PERF_MAP].number ? MVLD_NAMES_PERF : 0);
    const struct mvld_object **chosen = choose(ctx, objects, &n);
    struct concat_plan plan;
    const char *why;
    int error;

    if (!chosen)
        return ctx->api->fail(ctx->image, ENOMEM, "concat: out of memory");
    error = concat_plan(ctx, chosen, n, &plan);
    ctx->api->release(ctx->image, chosen);
    if (error)
        return error;
    if (!ctx->api->region_open(ctx, wanted_pages(ctx, &plan), names, &why))
        move(ctx, &plan);
    else
        ctx->api->log(ctx->image, MVLD_LOG_PASSES, "concat: no code moves: %s", why);
    concat_plan_release(ctx, &plan);
    return 0;
}

/* Without an option that needs moved code, direct calls alone give as much, and a start costs less
 * (README.md, "When it pays"). */
static const char *idle(const struct mvld_setting *settings, size_t n)
{
    enum mvld_pages wanted = configured_pages(settings);

    (void)n;
    if (settings[CONCAT_COPY].number == ALWAYS || settings[CONCAT_ORDER].number ||
        (wanted != MVLD_PAGES_SMALL && wanted != MVLD_PAGES_QUICK))
        return NULL;
    return "no code moves: small pages without a profile run no faster than direct calls alone "
           "(copy = always moves it)";
}

/* Calls in moved code use the targets that exist by then. */
static const char *const behind[] = {"direct-calls", NULL};

__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI,
    .name = "concat",
    .help = "the code of all objects lies together",
    .options = options,
    .library = "libconcat.so.1",
    .run = run,
    .flags = MVLD_PASS_ANALYSIS | MVLD_PASS_FREEZES | MVLD_PASS_MOVES,
    .idle = idle,
    .behind = behind,
};
