/* SPDX-License-Identifier: MIT
 *
 * A pass that calls every function of mvld/pass.h with every combination of arguments, in every stage: each pointer
 * valid, NULL, or to zeros.  With `apart` each call has a process of its own, and those that end it are named.
 */
#include <mvld/freestanding.h>
#include <mvld/pass.h>

#include <sys/syscall.h>

static const struct mvld_option options[] = {
    {.name = "apart", .type = MVLD_OPTION_BOOL, .initial = "yes", .help = "each call in a process of its own"},
    {.name = "file", .type = MVLD_OPTION_FILE, .initial = "", .help = "none"},
    {.name = NULL},
};

struct world {
    const struct mvld_context *ctx;
    const struct mvld_object *object;
    const struct mvld_file *file;
};

struct call {
    const char *name;
    int (*call)(const struct world *, unsigned k); /* 0: there is no such combination */
};

/* ---- arguments: the first choice is NULL or 0, the last is valid, and in the middle there are zeros ----------- */

static const _Alignas(64) char zeros[65536];

static struct mvld_image *image_of(const struct world *w, unsigned c)
{
    return c ? w->ctx->image : NULL;
}

static const struct mvld_context *context_of(const struct world *w, unsigned c)
{
    return c == 2 ? w->ctx : c ? (const void *)zeros : NULL;
}

static const struct mvld_object *object_of(const struct world *w, unsigned c)
{
    return c == 2 ? w->object : c ? (const void *)zeros : NULL;
}

static const struct mvld_section *section_of(const struct world *w, unsigned c)
{
    return c == 2 ? w->ctx->api->section_at(w->ctx->image, w->object, 0) : c ? (const void *)zeros : NULL;
}

static int keep(void *cookie, const struct mvld_symbol *symbol)
{
    *(struct mvld_symbol *)cookie = *symbol;
    return symbol->type == 2 /* STT_FUNC */;
}

static const struct mvld_symbol *symbol_of(const struct world *w, unsigned c)
{
    static struct mvld_symbol symbol;

    symbol = (struct mvld_symbol){.name = NULL};
    if (c == 2 && w->object)
        w->ctx->api->symbol_each(w->object, keep, &symbol);
    return c == 2 ? &symbol : c ? (const void *)zeros : NULL;
}

static const struct mvld_setting *setting_of(const struct world *w, unsigned c)
{
    return c == 2 ? &w->ctx->settings[1] : c ? (const void *)zeros : NULL;
}

static const struct mvld_file *file_of(const struct world *w, unsigned c)
{
    return c == 2 ? w->file : c ? (const void *)zeros : NULL;
}

static struct mvld_batch *batch_of(const struct world *w, unsigned c)
{
    return c ? w->ctx->api->patch_begin(w->ctx->image) : NULL;
}

static const char *text_of(const struct world *w, unsigned c)
{
    (void)w;
    return c == 2 ? "text" : c ? "" : NULL;
}

static void *memory_of(const struct world *w, unsigned c)
{
    static _Alignas(64) char memory[4096];

    (void)w;
    memset(memory, 0, sizeof memory);
    return c ? memory : NULL;
}

static void *allocated_of(const struct world *w, unsigned c)
{
    return c ? w->ctx->api->alloc(w->ctx->image, 16) : NULL;
}

static unsigned number_of(const struct world *w, unsigned c)
{
    (void)w;
    return c;
}

static uintptr_t address_of(const struct world *w, unsigned c)
{
    return c && w->object ? w->object->start : c;
}

static int visit(void)
{
    return 0;
}

static void *visitor_of(const struct world *w, unsigned c)
{
    (void)w;
    return c ? (void *)(uintptr_t)visit : NULL;
}

static const char *rule(const struct mvld_context *ctx, const struct mvld_object *object,
                        const struct mvld_binding *bound, uintptr_t *target)
{
    (void)ctx, (void)object, (void)bound, (void)target;
    return "stays";
}

static mvld_calls_rule *rule_of(const struct world *w, unsigned c)
{
    (void)w;
    return c ? rule : NULL;
}

#include "calls.inc"

/* ---- calls ------------------------------------------------------------------------------------------------ */

static long kernel(long nr, long a, long b, long c, long d)
{
    register long r10 __asm__("r10") = d;
    long result;

    __asm__ volatile("syscall" : "=a"(result) : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
    return result;
}

/* The status of the child in which the call was made: 1: made, 0: there is no such combination, else how it ended. */
static int call_apart(const struct world *w, const struct call *of, unsigned k)
{
    long child = kernel(SYS_fork, 0, 0, 0, 0);
    int status = -1;

    if (!child)
        kernel(SYS_exit_group, of->call(w, k) ? 0 : 1, 0, 0, 0);
    kernel(SYS_wait4, child, (long)&status, 0, 0);
    return status == 0 ? 1 : status == 1 << 8 ? 0 : 1000 + status;
}

static void call_all(const struct mvld_context *ctx, const char *stage, const struct mvld_object *object,
                     const struct mvld_file *file)
{
    const struct world w = {ctx, object, file};
    size_t made = 0, n = sizeof calls / sizeof *calls;

    for (size_t i = 0; i < n; i++) {
        int is_one = 1;

        for (unsigned k = 0; is_one; k++, made++) {
            is_one = ctx->settings[0].number ? call_apart(&w, &calls[i], k) : calls[i].call(&w, k);
            if (is_one > 1)
                ctx->api->log(ctx->image, MVLD_LOG_PASSES, "nulls: %s, %s, combination %u: ended with %d", stage,
                              calls[i].name, k, is_one - 1000);
        }
        made--;
    }
    ctx->api->log(ctx->image, MVLD_LOG_PASSES, "nulls: %s: %zu functions, %zu calls", stage, n, made);
}

static int map(const struct mvld_context *ctx, const struct mvld_file *file)
{
    if (!*ctx->state)
        call_all(ctx, "map", NULL, file);
    *ctx->state = (void *)1;
    return 0;
}

/* What was declared of symbols that are there shall not be made. */
static int relocate(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    if (*ctx->state == (void *)1)
        call_all(ctx, "relocate", objects[n - 1], NULL);
    *ctx->state = (void *)2;
    return -125; /* ECANCELED */
}

static int run(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    call_all(ctx, ctx->later ? "later" : "run", objects[n - 1], NULL);
    call_all(ctx, ctx->later ? "later, first" : "run, first", objects[0], NULL);
    return 0;
}

static void removed(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    (void)n;
    call_all(ctx, "removed", objects[0], NULL);
}

__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI, .name = "nulls", .help = "calls everything with nothing", .options = options, .map = map,
    .relocate = relocate, .run = run, .removed = removed, .flags = MVLD_PASS_ANALYSIS};
