/* SPDX-License-Identifier: MIT
 *
 * frames.c: calls of `called` lead through code of the pass that has a frame of its own:
 *
 *      0  f3 0f 1e fa          endbr64
 *      4  55                   push %rbp
 *      5  48 89 e5             mov  %rsp, %rbp
 *      8  53                   push %rbx
 *      9  48 83 ec 08          sub  $8, %rsp
 *     13  f0 48 ff 05 rel32    lock incq counter(%rip)
 *     21  e8 rel32             call called
 *     26  48 83 c4 08          add  $8, %rsp
 *     30  5b                   pop  %rbx
 *     31  5d                   pop  %rbp
 *     32  c3                   ret
 *
 * and, as `wrong` says, what must be refused.
 */
#include <mvld/pass.h>

enum { WRONG };
enum { NOTHING, OVERLAP, OUTSIDE, NAME, FRAME, CUT, NONE, MANY, MOVES, FAIL };

static const char *const wrongs[] = {"nothing", "overlap", "outside", "name", "frame", "cut", "none", "many", "moves",
                                     "fail", NULL};
static const struct mvld_option options[] = {
    {.name = "wrong", .type = MVLD_OPTION_WORD, .words = wrongs, .initial = "nothing"},
    {.name = NULL},
};

#define SIZE 33
static const uint8_t code[SIZE] = {0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0x53, 0x48, 0x83, 0xec, 8,
                                   0xf0, 0x48, 0xff, 0x05, 0, 0, 0, 0, 0xe8, 0, 0, 0, 0, 0x48, 0x83, 0xc4, 8,
                                   0x5b, 0x5d, 0xc3};
static const uint8_t frame[] = {
    0x45, 0x0e, 16, 0x86, 2, /* push %rbp: CFA = %rsp + 16, %rbp at CFA - 16 */
    0x43, 0x0d, 6,           /* mov: CFA = %rbp + 16 */
    0x41, 0x83, 3,           /* push %rbx: at CFA - 24 */
    0x57, 0x0c, 7, 8,        /* pop %rbp: CFA = %rsp + 8 */
};

struct made {
    uintptr_t target, code;
};

static void lead(uint8_t *at, uintptr_t to)
{
    int32_t distance = (int32_t)(to - (uintptr_t)at - 4);

    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)((uint32_t)distance >> 8 * i);
}

static const char *rule(const struct mvld_context *ctx, const struct mvld_object *object,
                        const struct mvld_binding *bound, uintptr_t *target)
{
    struct made *made = *ctx->state;

    (void)object;
    if (bound->target != made->target)
        return "another function";
    *target = made->code;
    return NULL;
}

/* Two functions: the one above, and one without a frame behind it. */
static uint8_t *add(const struct mvld_context *ctx)
{
    static struct mvld_new_function many[65537];
    static const uint8_t expression[] = {0x41, 0x0f, 1, 0x90}; /* DW_CFA_def_cfa_expression */
    struct mvld_new_function f[] = {{"count_called", 0, SIZE, frame, sizeof frame}, {"behind_it", 48, 16, NULL, 0}};
    size_t n = 2;

    switch (ctx->settings[WRONG].number) {
    case OVERLAP: f[1].offset = 32; break;
    case OUTSIDE: f[1].size = 17; break;
    case NAME: f[1].name = ""; break;
    case FRAME: f[1].frame = expression, f[1].frame_size = sizeof expression; break;
    case CUT: f[0].frame_size--; break;
    case NONE: n = 0; break;
    case MANY: return ctx->api->code_add(ctx, 64, many, 65537, 0);
    case MOVES: {
        const char *why;

        ctx->api->region_open(ctx, MVLD_PAGES_SMALL, 0, &why);
        for (size_t i = 0; i < ctx->api->object_count(ctx->image); i++)
            ctx->api->fragment_move(ctx->image, ctx->api->object_at(ctx->image, i), NULL, 0, 0, &why);
    }
    }
    return ctx->api->code_add(ctx, 64, f, n, MVLD_NAMES_DEBUGGERS | MVLD_NAMES_PERF);
}

static int make(const struct mvld_context *ctx)
{
    struct made *made = ctx->api->alloc(ctx->image, sizeof *made);
    struct mvld_symbol symbol;
    uint64_t *counter;
    uint8_t *at;

    if (!made || ctx->api->symbol_resolve(ctx->image, "called", NULL, &symbol))
        return ctx->api->fail(ctx->image, 2, "nothing is called");
    at = add(ctx);
    counter = at ? ctx->api->section_add(ctx, MVLD_SECTION_DATA, sizeof *counter) : NULL;
    if (!counter)
        return -12;
    for (size_t i = 0; i < SIZE; i++)
        at[i] = code[i];
    lead(at + 17, (uintptr_t)counter);
    lead(at + 22, symbol.address);
    *made = (struct made){symbol.address, (uintptr_t)at};
    *ctx->state = made;
    ctx->api->log(ctx->image, MVLD_LOG_PASSES, "frames: code at %p, counter at %p", (void *)at, (void *)counter);
    return ctx->settings[WRONG].number == FAIL ? ctx->api->fail(ctx->image, 22, "it fails") : 0;
}

static int run(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    int error = ctx->later ? 0 : make(ctx);

    for (size_t i = 0; i < n && !error; i++)
        if (!objects[i]->why)
            error = ctx->api->calls_retarget(ctx, objects[i], rule);
    return error;
}

__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI, .name = "frames", .help = "code with frames between a call and a function",
    .options = options, .run = run, .library = "libconcat.so.1", .flags = MVLD_PASS_ANALYSIS,
};
