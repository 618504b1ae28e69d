/* SPDX-License-Identifier: MIT
 *
 * shuffle.c: puts the functions of all objects into a new order at each start, so that a leaked address
 * reveals no other one.  Code that may not move stays.
 *     [shuffle]
 *     leave = libcrypto.so.3
 */
#include <mvld/pass.h>

enum { LEAVE };

static const struct mvld_option options[] = {
    {.name = "leave", .type = MVLD_OPTION_STRING, .initial = "", .help = "a library that stays as it is"},
    {.name = NULL},
};

struct piece { const struct mvld_object *object; struct mvld_fragment fragment; };
struct deck { const struct mvld_context *ctx; struct piece *pieces; size_t n; uint32_t drawn[64]; size_t used; };

static int is_left(const struct mvld_context *ctx, const char *path)
{
    const char *name = path, *left = ctx->settings[LEAVE].text;

    for (; *path; path++)
        name = *path == '/' ? path + 1 : name;
    while (*name && *name == *left)
        name++, left++;
    return !*name && !*left;
}

/* The number of fragments; adds them to the deck, if it is large enough. */
static size_t cut(struct deck *deck, const struct mvld_object *object)
{
    const struct mvld_api *api = deck->ctx->api;
    const char *why;
    size_t n = object->why || is_left(deck->ctx, object->name)
                   ? 0 : api->fragments(deck->ctx->image, object, NULL, 0, &why);
    struct mvld_fragment *list = n && deck->pieces ? api->alloc(deck->ctx->image, n * sizeof *list) : NULL;

    if (list)
        api->fragments(deck->ctx->image, object, list, n, &why);
    for (size_t i = 0; list && i < n; i++)
        deck->pieces[deck->n++] = (struct piece){object, list[i]};
    api->release(deck->ctx->image, list);
    return n;
}

/* A random number below `n`, from the kernel. */
static int draw(struct deck *deck, size_t n, size_t *out)
{
    int error = 0;

    if (deck->used % 64 == 0)
        error = deck->ctx->api->random(deck->ctx->image, deck->drawn, sizeof deck->drawn);
    *out = (size_t)((uint64_t)deck->drawn[deck->used++ % 64] * n >> 32);
    return error;
}

static int shuffle(struct deck *deck)
{
    int error = 0;

    for (size_t i = deck->n; i > 1 && !error; i--) {
        struct piece last = deck->pieces[i - 1];
        size_t k;

        error = draw(deck, i, &k);
        deck->pieces[i - 1] = deck->pieces[k];
        deck->pieces[k] = last;
    }
    return error;
}

static int run(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    const struct mvld_api *api = ctx->api;
    struct deck deck = {.ctx = ctx};
    size_t room = 0, moved = 0;
    const char *why;
    int error;

    if (api->region_open(ctx, MVLD_PAGES_SMALL, MVLD_NAMES_DEBUGGERS, &why))
        return api->fail(ctx->image, 95 /* ENOTSUP */, "shuffle: no code moves: %s", why);
    for (size_t i = 0; i < n; i++)
        room += cut(&deck, objects[i]);
    deck.pieces = api->alloc(ctx->image, (room + 1) * sizeof *deck.pieces);
    if (!deck.pieces)
        return -12 /* ENOMEM */;
    for (size_t i = 0; i < n; i++)
        cut(&deck, objects[i]);
    error = shuffle(&deck);
    for (size_t i = 0; i < deck.n && !error; i++)
        moved += !api->fragment_move(ctx->image, deck.pieces[i].object, &deck.pieces[i].fragment, 0, 0, &why);
    api->log(ctx->image, MVLD_LOG_PASSES, "shuffle: %zu of %zu pieces of code move", moved, deck.n);
    api->release(ctx->image, deck.pieces);
    return error;
}

/* Calls in moved code use the targets that exist by then. */
static const char *const behind[] = {"direct-calls", NULL};

__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI, .name = "shuffle", .help = "functions in another order at each start", .options = options,
    .run = run, .library = "libconcat.so.1", .flags = MVLD_PASS_ANALYSIS | MVLD_PASS_MOVES, .behind = behind,
};
