/* SPDX-License-Identifier: MIT
 *
 * debloat.c: turns functions that nothing refers to into traps, in all objects or in one:
 *     [debloat]
 *     library = libcrypto.so.3
 *     exported = yes
 *     keep = /etc/mvld/looked-up
 *
 * With `exported` also those that no object of the program refers to, and functions that only they call: for programs
 * that look up no symbols by name (dlsym) except those in the file `keep`, and open no objects (dlopen) that need others.
 */
#include <mvld/freestanding.h>
#include <mvld/pass.h>

enum { LIBRARY, EXPORTED, KEEP };

static const struct mvld_option options[] = {
    {.name = "library", .type = MVLD_OPTION_STRING, .initial = "", .help = "the only object to look at: its file name"},
    {.name = "exported", .type = MVLD_OPTION_BOOL, .initial = "no", .help = "what no object refers to goes, too"},
    {.name = "keep", .type = MVLD_OPTION_FILE, .initial = "", .help = "names that the program looks up, a line each"},
    {.name = NULL},
};

struct edge { size_t from, to; };
struct graph { /* of one object */
    const struct mvld_context *ctx;
    const struct mvld_object *object;
    struct mvld_function *functions; /* ascending; NULL: only counted */
    uint8_t *stays;
    struct edge *edges; /* likewise */
    size_t n, n_edges;
};

static int note_function(void *cookie, const struct mvld_function *f)
{
    struct graph *g = cookie;
    uint32_t stays = MVLD_FUNCTION_HELD | MVLD_FUNCTION_BOUND |
                     (g->ctx->settings[EXPORTED].number ? 0 : MVLD_FUNCTION_EXPORTED);

    if (g->functions) {
        g->functions[g->n] = *f;
        g->stays[g->n] = f->proof != MVLD_PROOF_MOVABLE || f->flags & stays;
    }
    g->n++;
    return 0;
}

/* The function that contains the address; n: none. */
static size_t function_of(const struct graph *g, uintptr_t address)
{
    size_t low = 0, high = g->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (g->functions[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low < g->n && g->functions[low].entry <= address ? low : g->n;
}

static void add_edge(struct graph *g, size_t from, size_t to)
{
    if (from == to || from == g->n || to == g->n)
        return;
    if (g->edges)
        g->edges[g->n_edges] = (struct edge){from, to};
    g->n_edges++;
}

static int note_reference(void *cookie, const struct mvld_reference *r)
{
    add_edge(cookie, function_of(cookie, r->site), function_of(cookie, r->target));
    add_edge(cookie, function_of(cookie, r->site), function_of(cookie, r->found)); /* code_remove goes by that */
    return 0;
}

/* Reads references; functions of one fragment run into each other. */
static void read_edges(struct graph *g)
{
    const uint32_t kinds = MVLD_REFERENCES(MVLD_REFERENCE_CALL) | MVLD_REFERENCES(MVLD_REFERENCE_JUMP) |
                           MVLD_REFERENCES(MVLD_REFERENCE_LEA);
    const char *why;

    g->n_edges = 0;
    g->ctx->api->reference_each(g->ctx->image, g->object, kinds, note_reference, g, &why);
    for (size_t i = 0; i + 1 < g->n; i++)
        if (g->functions[i].fragment.size &&
            g->functions[i].fragment.original == g->functions[i + 1].fragment.original) {
            add_edge(g, i, i + 1);
            add_edge(g, i + 1, i);
        }
}

static void spread(struct graph *g)
{
    for (int again = 1; again;) {
        again = 0;
        for (size_t i = 0; i < g->n_edges; i++)
            if (g->stays[g->edges[i].from] && !g->stays[g->edges[i].to])
                again = g->stays[g->edges[i].to] = 1;
    }
}

static void keep(struct graph *g, char *names)
{
    struct mvld_symbol symbol;

    for (char *end = names; *names; names = end) {
        while (*end && *end != '\n')
            end++;
        if (*end)
            *end++ = 0;
        if (!g->ctx->api->symbol_find(g->object, names, NULL, &symbol) && function_of(g, symbol.address) < g->n)
            g->stays[function_of(g, symbol.address)] = 1;
    }
}

static int remove_rest(const struct graph *g)
{
    const struct mvld_api *api = g->ctx->api;
    uint32_t flags = g->ctx->settings[EXPORTED].number ? MVLD_REMOVE_EXPORTED : 0;
    size_t n = 0, bytes = 0, all = 0;
    int error = 0;

    for (size_t i = 0; i < g->n && !error; i++) {
        size_t size = g->functions[i].end - g->functions[i].entry;

        all += size;
        if (g->stays[i])
            continue;
        error = api->code_remove(g->ctx, &g->functions[i], flags);
        n++;
        bytes += size;
    }
    if (!error)
        api->log(g->ctx->image, MVLD_LOG_PASSES, "debloat: %s: %zu of %zu functions go, %zu of %zu bytes",
                 g->object->name, n, g->n, bytes, all);
    return error;
}

static int debloat(const struct mvld_context *ctx, const struct mvld_object *object)
{
    const struct mvld_api *api = ctx->api;
    struct graph g = {.ctx = ctx, .object = object};
    size_t size;
    char *names = *ctx->settings[KEEP].text ? api->file_read(ctx, &ctx->settings[KEEP], &size) : NULL;
    int error = *ctx->settings[KEEP].text && !names ? -2 /* ENOENT */ : 0;
    const char *why;

    if (!error && api->function_each(ctx->image, object, note_function, &g, &why))
        api->log(ctx->image, MVLD_LOG_PASSES, "debloat: %s stays as it is: %s", object->name, why);
    else if (!error) {
        g.functions = api->alloc(ctx->image, g.n * sizeof *g.functions + 1);
        g.stays = api->alloc(ctx->image, g.n + 1);
        error = g.functions && g.stays ? 0 : -12 /* ENOMEM */;
        g.n = 0;
    }
    if (!error && g.functions) {
        api->function_each(ctx->image, object, note_function, &g, &why);
        read_edges(&g); /* counted */
        g.edges = api->alloc(ctx->image, g.n_edges * sizeof *g.edges + 1);
        error = g.edges ? 0 : -12;
    }
    if (!error && g.functions) {
        read_edges(&g);
        if (names)
            keep(&g, names);
        spread(&g);
        error = remove_rest(&g);
    }
    api->release(ctx->image, names);
    api->release(ctx->image, g.functions);
    api->release(ctx->image, g.stays);
    api->release(ctx->image, g.edges);
    return error;
}

static int is_meant(const struct mvld_context *ctx, const struct mvld_object *object)
{
    const char *wanted = ctx->settings[LIBRARY].text;

    return !object->why && (!*wanted || !mvld_strcmp(mvld_file_name(object->name), wanted));
}

static int run(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    int error = 0;

    for (size_t i = 0; i < n && !error; i++)
        error = is_meant(ctx, objects[i]) ? debloat(ctx, objects[i]) : 0;
    return error;
}

__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI, .name = "debloat", .help = "functions that nothing leads to become traps", .options = options,
    .run = run, .flags = MVLD_PASS_ANALYSIS | MVLD_PASS_FREEZES,
};
