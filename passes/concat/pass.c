/* SPDX-License-Identifier: MIT
 *
 * pass.c: the code of all objects into one region.  How, rimf/moved/moved.h tells; which, and
 * in which order, is decided here.  README.md has the picture.
 */
#include "concat.h"

#include "rimf/base/base.h"
#include "mvld/descriptor.h"

#include <errno.h> /* numbers only */

#define HUGE_SIZE 0x200000u
#define LINE 64u /* of the caches */
#define MANY_HOT (8u << 20) /* bytes of code: from there on huge pages pay (DECISIONS.md) */

static const char *const orders[] = {"as-loaded", "random", "random-functions", "profile",
                                     NULL}; /* order.c has a function for each */
static const char *const copies[] = {"where-it-pays", "always", NULL};
enum { WHERE_IT_PAYS, ALWAYS };
static const char *const pages[] = {"small", "thp", "hugetlb", "quick", NULL}; /* enum mvld_pages */

static const struct mvld_option options[] = {
    {.name = "order", .type = MVLD_OPTION_WORD, .words = orders, .initial = "as-loaded",
     .help = "in which order the objects' code, or their functions, lie in the region"},
    {.name = "later", .type = MVLD_OPTION_BOOL, .initial = "yes",
     .help = "also what comes by dlopen"},
    {.name = "leave", .type = MVLD_OPTION_STRING, .initial = "",
     .help = "objects that stay home: file names, separated by commas"},
    {.name = "debugger", .type = MVLD_OPTION_BOOL, .initial = "yes",
     .help = "debuggers find names and frames of the copies"},
    {.name = "perf-map", .type = MVLD_OPTION_BOOL, .initial = "no",
     .help = "perf finds names of the copies, in /tmp/perf-PID.map"},
    {.name = "pages", .type = MVLD_OPTION_WORDS, .words = pages, .initial = "quick",
     .help = "the first that there are, for code that fills huge pages: of the kernel's pool "
             "(hugetlb), put together by the kernel (thp; quick: if it has them at once), small"},
    {.name = "profile", .type = MVLD_OPTION_FILE, .initial = "",
     .help = "a file that names the hot functions, for order = profile"},
    {.name = "copy", .type = MVLD_OPTION_WORD, .words = copies, .initial = "where-it-pays",
     .help = "code is copied where an order or pages are asked for that only copies have, or always"},
    {.name = NULL},
};

/* ---- which ----------------------------------------------------------------------- */

const char *concat_file_name(const struct mvld_object *object)
{
    const char *slash = rimf_strrchr(object->name, '/');

    return slash ? slash + 1 : object->name;
}

/* "libc.so.6, bash" */
static int is_listed(const char *list, const char *name)
{
    size_t size = rimf_strlen(name);

    while (*list) {
        size_t n = 0;

        while (*list == ' ' || *list == ',')
            list++;
        while (list[n] && list[n] != ',' && list[n] != ' ')
            n++;
        if (n && n == size && rimf_strncmp(list, name, n) == 0)
            return 1;
        list += n;
    }
    return 0;
}

/* Why the object's code stays home, or NULL. */
static const char *stays(const struct mvld_context *ctx, const struct mvld_object *object)
{
    struct mvld_symbol symbol;
    int noted;

    if (object->why)
        return object->why;
    if (is_listed(ctx->settings[CONCAT_LEAVE].text, concat_file_name(object)))
        return "so configured (leave)";
    if (!ctx->api->symbol_find(object, "concat_code", NULL, &symbol))
        return "it is where copies go";
    /* Without the pass, which knows of copies, it is libmultiverse that patches: at home. */
    if (ctx->api->pass_planned(ctx->image, "multiverse"))
        return NULL;
    noted = ctx->api->note_each(object, MULTIVERSE_NOTE_NAME, MULTIVERSE_NOTE_TABLES, NULL, NULL);
    return noted > 0   ? "its code is patched at run time, by no pass (multiverse)"
           : noted < 0 ? "its notes do not say whether its code is patched at run time (multiverse)"
                       : NULL;
}

/* ---- the region -------------------------------------------------------------------- */

/* The library that reserves it is in the global scope, unless the program may not have it. */
static int find_region(const struct mvld_context *ctx, struct mvld_region *region)
{
    struct mvld_symbol code, frames;

    if (ctx->api->symbol_resolve(ctx->image, "concat_code", NULL, &code) ||
        ctx->api->symbol_find(code.object, "concat_frames", NULL, &frames))
        return 0;
    *region = (struct mvld_region){code.address, frames.address, code.size, frames.size};
    return 1;
}

/* There are always small pages, so what stands behind them is never needed; of a pool there may be too
 * little, and then it matters whether the kernel shall put some together.  "hugetlb" alone
 * lets it. */
static enum mvld_pages configured_pages(const struct mvld_setting *settings)
{
    const struct mvld_setting *said = &settings[CONCAT_PAGES];
    int first = mvld_setting_word(said, 0), second = mvld_setting_word(said, 1);

    return first == MVLD_PAGES_HUGETLB && second != -1 && second != MVLD_PAGES_THP
               ? MVLD_PAGES_POOL : (enum mvld_pages)first;
}

/* A profile names so much that huge pages pay; for that part of the code. */
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
    return MVLD_PAGES_THP;
}

/* Where the first copy goes.  What comes later has huge pages where they happen to fit. */
static uintptr_t first_place(enum mvld_pages wanted, const struct mvld_region *region)
{
    return wanted == MVLD_PAGES_SMALL || wanted == MVLD_PAGES_QUICK
               ? region->code
               : (region->code + HUGE_SIZE - 1) & ~(uintptr_t)(HUGE_SIZE - 1);
}

/* ---- the pass ------------------------------------------------------------------------ */

static void report(const struct mvld_context *ctx, const struct mvld_copies_report *r)
{
    ctx->api->log(ctx->image, MVLD_LOG_STATISTICS | MVLD_LOG_PASSES,
                  "concat: %zu objects, %zu functions, %zu KB of code, %zu KB of unwind tables; "
                  "%zu begin at home with a jump to the copy, %zu that may be entered run there",
                  r->objects, r->units, r->code / 1024, r->frames / 1024, r->entries, r->at_home);
}

/* Those of the objects that may be copied. */
static const struct mvld_object **choose(const struct mvld_context *ctx,
                                         const struct mvld_object *const *objects, size_t *n)
{
    const struct mvld_object **chosen = ctx->api->alloc(ctx->image, (*n + 1) * sizeof *chosen);
    size_t kept = 0;

    for (size_t i = 0; chosen && i < *n; i++) {
        const char *why = stays(ctx, objects[i]);

        if (why)
            ctx->api->log(ctx->image, MVLD_LOG_PASSES, "concat: %s: stays home: %s",
                          objects[i]->name, why);
        else
            chosen[kept++] = objects[i];
    }
    *n = kept;
    return chosen;
}

/* Where its copy shall begin, behind the last, which ends at `end` (0: anywhere).  A hot function
 * begins where it lies best in the lines of the caches; other code lies in them as at home. */
static uintptr_t place(const struct mvld_context *ctx, const struct concat_item *item, int is_hot,
                       uintptr_t end)
{
    uintptr_t from = end ? end + item->gap : 0, in_line = item->fragment.home;

    if (!from || !item->fragment.size)
        return from;
    if (is_hot)
        in_line = ctx->api->copy_in_line(ctx->image, item->object, &item->fragment);
    return from + (in_line - from) % LINE;
}

/* *end: where the next copy may begin.  What has no room runs at home.  Where the hot ones end. */
static uintptr_t add_items(const struct mvld_context *ctx, const struct concat_plan *plan,
                           uintptr_t *end)
{
    const struct mvld_object *said = NULL;
    uintptr_t hot_end = *end;

    for (size_t i = 0; i < plan->n; i++) {
        const struct concat_item *item = &plan->items[i];
        uintptr_t from = place(ctx, item, i < plan->n_hot, *end);
        const char *why;
        int error = item->fragment.size
                        ? ctx->api->copy_add_fragment(ctx->image, item->object, &item->fragment, from,
                                                   end, &why)
                        : ctx->api->copy_add(ctx->image, item->object, from, end, &why);

        if (error && said != item->object)
            ctx->api->log(ctx->image, MVLD_LOG_PASSES, "concat: %s: %s: %s", item->object->name,
                          item->fragment.size ? "a part of it stays home" : "stays home", why);
        said = error ? item->object : said;
        hot_end = i < plan->n_hot ? *end : hot_end;
    }
    if (plan->n_hot)
        ctx->api->log(ctx->image, MVLD_LOG_PASSES, "concat: %zu hot functions come first",
                      plan->n_hot);
    return hot_end;
}

/* With a region the first copies go there, else behind the last. */
static int add(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n,
               const struct mvld_region *region)
{
    const struct mvld_object **chosen = choose(ctx, objects, &n);
    struct mvld_copies_report r;
    struct concat_plan plan;
    uintptr_t end = 0, hot_end;
    int error;

    if (!chosen)
        return ctx->api->fail(ctx->image, ENOMEM, "concat: out of memory");
    error = concat_plan(ctx, chosen, n, &plan);
    ctx->api->release(ctx->image, chosen);
    if (error)
        return error;
    if (region) {
        enum mvld_pages wanted = wanted_pages(ctx, &plan);

        ctx->api->region_pages(ctx->image, wanted);
        end = first_place(wanted, region);
    }
    hot_end = add_items(ctx, &plan, &end);
    if (region && is_large(ctx, &plan))
        ctx->api->region_hot(ctx->image, hot_end);
    concat_plan_release(ctx, &plan);
    error = ctx->api->copies_commit(ctx->image, &r);
    if (r.objects) {
        report(ctx, &r);
        concat_report(ctx);
    }
    return error;
}

static int run(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    const char *watcher = ctx->later ? NULL : ctx->api->auditor(ctx->image);
    struct mvld_region region;

    if (ctx->later)
        return ctx->settings[CONCAT_LATER].number ? add(ctx, objects, n, NULL) : 0;
    if (!watcher && !find_region(ctx, &region))
        watcher = "libconcat.so.1, where copies go, is not in the program";
    if (watcher) {
        ctx->api->log(ctx->image, MVLD_LOG_PASSES, "concat: no code is copied: %s", watcher);
        return 0;
    }
    if (ctx->api->region_set(ctx->image, &region))
        return -EINVAL;
    return add(ctx, objects, n, &region);
}

static void removed(const struct mvld_context *ctx, const struct mvld_object *const *objects,
                    size_t n)
{
    for (size_t i = 0; i < n; i++)
        ctx->api->copies_forget(ctx->image, objects[i]);
}

/* Who asked for nothing that only copies have is served as well by direct calls alone, and a start
 * costs less (README.md, "When it pays"). */
static const char *idle(const struct mvld_setting *settings, size_t n)
{
    enum mvld_pages wanted = configured_pages(settings);

    (void)n;
    if (settings[CONCAT_COPY].number == ALWAYS || settings[CONCAT_ORDER].number ||
        (wanted != MVLD_PAGES_SMALL && wanted != MVLD_PAGES_QUICK))
        return NULL;
    return "no code is copied: small pages without a profile run no faster than direct calls alone "
           "(copy = always copies)";
}

/* Copies lead where calls lead by then. */
static const char *const behind[] = {"direct-calls", NULL};

__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI,
    .name = "concat",
    .help = "the code of all objects lies together",
    .options = options,
    .library = "libconcat.so.1",
    .run = run,
    .removed = removed,
    .flags = MVLD_PASS_ANALYSIS | MVLD_PASS_FREEZES | MVLD_PASS_SPACIOUS | MVLD_PASS_LOOKS_AHEAD |
             MVLD_PASS_MOVES,
    .idle = idle,
    .behind = behind,
};
