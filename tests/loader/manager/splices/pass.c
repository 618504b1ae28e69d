/* SPDX-License-Identifier: MIT
 *
 * pass.c: code in front of each instruction of a library that can be displaced, or of each `stride`-th of them, from
 * `first` on.  The code destroys whatever it may destroy, and some of what it may not: registers that calls destroy,
 * flags, the stack below it.
 */
#include <mvld/pass.h>

enum { LIBRARY, FIRST, STRIDE, FAIL };

static const struct mvld_option options[] = {
    {.name = "library", .type = MVLD_OPTION_STRING, .initial = "libspliced.so"},
    {.name = "first", .type = MVLD_OPTION_INT, .min = 0, .max = 1 << 30, .initial = "0"},
    {.name = "stride", .type = MVLD_OPTION_INT, .min = 1, .max = 1 << 30, .initial = "1"},
    {.name = "fail", .type = MVLD_OPTION_BOOL, .initial = "no"},
    {.name = NULL},
};

struct splicing {
    const struct mvld_context *ctx;
    size_t seen, made, refused;
};

/* Counts; then nothing is as it was. */
void destroy(void *counter);
__asm__(".pushsection .text\n"
        "destroy:\n"
        "    lock incq (%rdi)\n"
        "    pushfq\n"
        "    mov $20, %ecx\n"
        "1:  movl $0x5a5a5a5a, -168(%rsp,%rcx,8)\n"
        "    loop 1b\n"
        "    popfq\n"
        "    mov $0x1111111111111111, %rax\n"
        "    mov %rax, %rcx\n"
        "    mov %rax, %rdx\n"
        "    mov %rax, %rsi\n"
        "    mov %rax, %rdi\n"
        "    mov %rax, %r8\n"
        "    mov %rax, %r9\n"
        "    mov %rax, %r10\n"
        "    mov %rax, %r11\n"
        "    sub $0x7, %al\n"
        "    ret\n"
        ".popsection\n");

static uint64_t executed;

static int ends_with(const char *text, const char *end)
{
    size_t n = 0, m = 0;

    while (text[n])
        n++;
    while (end[m])
        m++;
    for (size_t i = 0; i < m; i++)
        if (n < m || text[n - m + i] != end[i])
            return 0;
    return 1;
}

static int splice(void *cookie, const struct mvld_instruction *i)
{
    struct splicing *s = cookie;
    const struct mvld_api *api = s->ctx->api;

    if (s->seen++ % (size_t)s->ctx->settings[STRIDE].number != (size_t)s->ctx->settings[FIRST].number)
        return 0;
    if (s->made == MVLD_SPLICES_MAX)
        api->log(s->ctx->image, MVLD_LOG_PASSES, "splice: one more: %d",
                 api->code_splice(s->ctx, i->address, destroy, &executed));
    if (s->made == MVLD_SPLICES_MAX)
        return 1;
    if (!api->code_splice(s->ctx, i->address, destroy, &executed)) {
        s->made++;
        return 0;
    }
    if (s->refused++ < 4)
        api->log(s->ctx->image, MVLD_LOG_PASSES, "%s", api->last_error(s->ctx->image));
    return 0;
}

static int each(void *cookie, const struct mvld_function *f)
{
    struct splicing *s = cookie;
    const char *why;

    return f->proof == MVLD_PROOF_NONE
               ? 0 : s->ctx->api->instruction_each(s->ctx->image, f, splice, s, &why) > 0;
}

/* What is wrong is refused. */
static void try_wrong(const struct mvld_context *ctx)
{
    const struct mvld_api *api = ctx->api;
    struct mvld_symbol symbol;

    if (!ctx->later && !api->symbol_resolve(ctx->image, "looped", NULL, &symbol))
        api->log(ctx->image, MVLD_LOG_PASSES, "wrong: %d %d %d %d",
                 api->code_splice(ctx, symbol.address + 1, destroy, NULL),
                 api->code_splice(ctx, symbol.address, NULL, NULL), api->code_splice(ctx, 1, destroy, NULL),
                 api->code_splice(ctx, (uintptr_t)symbol.object->phdr, destroy, NULL));
}

static int run(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    struct splicing s = {.ctx = ctx};
    const char *why;

    for (size_t i = 0; i < n; i++)
        if (!objects[i]->why && ends_with(objects[i]->name, ctx->settings[LIBRARY].text) &&
            ctx->api->function_each(ctx->image, objects[i], each, &s, &why) < 0)
            ctx->api->log(ctx->image, MVLD_LOG_PASSES, "%s: %s", objects[i]->name, why);
    ctx->api->log(ctx->image, MVLD_LOG_PASSES, "splice: %zu of %zu, counter at %p", s.made, s.made + s.refused,
                  (void *)&executed);
    try_wrong(ctx);
    return ctx->settings[FAIL].number ? ctx->api->fail(ctx->image, 22, "it fails") : 0;
}

__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI, .name = "splice", .help = "code in front of instructions", .options = options, .run = run,
    .library = "libconcat.so.1", .flags = MVLD_PASS_ANALYSIS,
};
