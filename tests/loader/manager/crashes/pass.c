/* SPDX-License-Identifier: MIT
 *
 * A pass that crashes as it is told: in which of its functions, and how; for crashes.py.
 */
#include <mvld/pass.h>

static const char *const places[] = {"none", "map", "relocate", "run", "rule", "later", "removed", "refuses", NULL};
static const char *const ways[] = {"segv", "ill", "fpe", "null", "sent", "api", NULL};
enum { NOWHERE, MAP, RELOCATE, RUN, RULE, LATER, REMOVED, REFUSES };
static const struct mvld_option options[] = {
    {.name = "in", .type = MVLD_OPTION_WORD, .words = places, .initial = "none"},
    {.name = "by", .type = MVLD_OPTION_WORD, .words = ways, .initial = "segv"},
    {.name = NULL},
};

static long call(long number, long a, long b)
{
    long result;

    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b) : "rcx", "r11", "memory");
    return result;
}

static int crash(const struct mvld_context *ctx, int place)
{
    if (ctx->settings[0].number != place)
        return 0;
    switch (ctx->settings[1].number) {
    case 0: __asm__ volatile("faults%=: movb $0, 8" ::: "memory"); break;
    case 1: __asm__ volatile("ud2"); break;
    case 2: __asm__ volatile("xorl %%ecx, %%ecx; divl %%ecx" ::: "rax", "rcx", "rdx"); break;
    case 3: __asm__ volatile("xorl %%eax, %%eax; call *%%rax" ::: "rax"); break;
    case 5: ctx->api->fail(ctx->image, 1, "%s", (const char *)8); break;
    case 4: call(62 /* SYS_kill */, call(39 /* SYS_getpid */, 0, 0), 11 /* SIGSEGV */); break;
    }
    return 0;
}

static int map(const struct mvld_context *ctx, const struct mvld_file *file)
{
    const char *name = file->name;

    while (*name)
        name++;
    return ctx->settings[0].number == REFUSES && name[-1] == 'o' && name[-4] == 'e' ? -13 /* late.so */ : crash(ctx, MAP);
}

static int relocate(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    (void)objects;
    (void)n;
    return crash(ctx, RELOCATE);
}

static const char *rule(const struct mvld_context *ctx, const struct mvld_object *object,
                        const struct mvld_binding *bound, uintptr_t *target)
{
    (void)object;
    *target = bound->target;
    crash(ctx, RULE);
    return NULL;
}

static int run(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    for (size_t i = 0; i < n && ctx->settings[0].number == RULE; i++)
        ctx->api->calls_retarget(ctx, objects[i], rule);
    return crash(ctx, ctx->later ? LATER : RUN);
}

static void removed(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    (void)objects;
    (void)n;
    crash(ctx, REMOVED);
}

__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI, .name = "crash", .help = "crashes", .options = options, .map = map, .relocate = relocate,
    .run = run, .removed = removed, .flags = MVLD_PASS_ANALYSIS};
