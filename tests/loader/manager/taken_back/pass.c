/* SPDX-License-Identifier: MIT
 *
 * pass.c, as first.so and as second.so: wants something, or takes back what is wanted; and fails, where it is told to.
 */
#include <mvld/pass.h>

enum { DOES, FAILS };
enum { NOTHING, CALLS, CALLS_BACK, REFERENCES, REFERENCES_BACK, DOMAIN, SECTION, SECTION_LED, SECTION_OTHERS, PATCH };

static const char *const does[] = {"nothing", "calls", "calls-back", "references", "references-back", "domain",
                                   "section", "section-led", "section-others", "patch", NULL};
static const struct mvld_option options[] = {
    {.name = "does", .type = MVLD_OPTION_WORD, .words = does, .initial = "nothing"},
    {.name = "fails", .type = MVLD_OPTION_BOOL, .initial = "no"},
    {.name = NULL},
};

static uintptr_t address_of(const struct mvld_context *ctx, const char *name)
{
    struct mvld_symbol symbol;

    return ctx->api->symbol_resolve(ctx->image, name, NULL, &symbol) ? 0 : symbol.address;
}

/* Calls of `called` lead to `second`; or lead as they were found. */
static const char *rule(const struct mvld_context *ctx, const struct mvld_object *object,
                        const struct mvld_binding *bound, uintptr_t *target)
{
    (void)object;
    if (ctx->settings[DOES].number == CALLS_BACK && bound->target != bound->found)
        *target = bound->slot;
    if (ctx->settings[DOES].number == CALLS && bound->found == address_of(ctx, "called"))
        *target = address_of(ctx, "second");
    return *target ? NULL : "it is another call";
}

static int visit(void *cookie, const struct mvld_reference *reference)
{
    const struct mvld_context *ctx = cookie;
    uintptr_t to = ctx->settings[DOES].number == REFERENCES_BACK ? reference->found : address_of(ctx, "second");

    if (ctx->settings[DOES].number == REFERENCES_BACK ? reference->target == reference->found
                                                      : reference->target != address_of(ctx, "first"))
        return 0;
    return ctx->api->reference_retarget(ctx, reference, to);
}

static int references(const struct mvld_context *ctx, const struct mvld_object *object)
{
    const char *why;

    return ctx->api->reference_each(ctx->image, object,
                                    MVLD_REFERENCES(MVLD_REFERENCE_CALL) | MVLD_REFERENCES(MVLD_REFERENCE_LEA) |
                                        MVLD_REFERENCES(MVLD_REFERENCE_WORD),
                                    visit, (void *)ctx, &why);
}

static int section(const struct mvld_context *ctx, const struct mvld_object *object)
{
    const struct mvld_section *others = ctx->api->section_at(ctx->image, NULL, 0), *own;
    uint8_t *at = ctx->api->section_add(ctx, MVLD_SECTION_CODE, 4);
    uintptr_t address = (uintptr_t)at;

    if (ctx->settings[DOES].number == SECTION_OTHERS)
        return ctx->api->section_remove(ctx, others);
    own = ctx->api->section_at(ctx->image, NULL, 0);
    if (!at || !own || own->address != address)
        return -12;
    at[0] = 0x8d, at[1] = 0x47, at[2] = 100, at[3] = 0xc3; /* lea 100(%rdi), %eax; ret */
    if (ctx->settings[DOES].number == SECTION_LED) {
        struct mvld_reference word = {.kind = MVLD_REFERENCE_WORD, .site = address_of(ctx, "word"),
                                      .target = address_of(ctx, "first")};
        int error = ctx->api->reference_retarget(ctx, &word, address);

        error = error ? error : ctx->api->section_remove(ctx, own);
        ctx->api->log(ctx->image, MVLD_LOG_PASSES, "removed while it is led to: %d", error);
        return 0;
    }
    if (ctx->api->section_remove(ctx, own) || ctx->api->section_at(ctx->image, NULL, 0) != others ||
        ctx->api->object_find(ctx->image, address) || ctx->api->section_remove(ctx, ctx->api->section_at(ctx->image, object, 0)) != -22)
        return -5;
    return 0;
}

/* Two bytes of the function that nobody runs are others. */
static int patch(const struct mvld_context *ctx)
{
    struct mvld_batch *batch = ctx->api->patch_begin(ctx->image);
    uintptr_t at = address_of(ctx, "disguised");

    ctx->api->patch_add(batch, at, (const uint8_t[]){0x48, 0xb8}, (const uint8_t[]){0x49, 0xb8}, 2);
    ctx->api->patch_commit(batch, NULL);
    ctx->api->patch_end(batch);
    return 0;
}

static int domain(const struct mvld_context *ctx, const struct mvld_object *object)
{
    long number = ctx->api->domain_add(ctx->image, "apart");

    return number < 0 ? (int)number : ctx->api->domain_move(ctx->image, object, (size_t)number);
}

static int run_for(const struct mvld_context *ctx, const struct mvld_object *object)
{
    ctx->api->log(ctx->image, MVLD_LOG_PASSES, "%s: the program is in domain %zu", ctx->pass,
                  ctx->api->domain_of(object));
    switch (ctx->settings[DOES].number) {
    case CALLS:
    case CALLS_BACK: return ctx->api->calls_retarget(ctx, object, rule);
    case REFERENCES:
    case REFERENCES_BACK: return references(ctx, object);
    case DOMAIN: return domain(ctx, object);
    case SECTION:
    case SECTION_LED:
    case SECTION_OTHERS: return section(ctx, object);
    case PATCH: return patch(ctx);
    default: return 0;
    }
}

static int run(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    int error = 0;

    for (size_t i = 0; i < n && !error; i++)
        if (objects[i]->flags & MVLD_OBJECT_MAIN)
            error = run_for(ctx, objects[i]);
    return error                       ? error
           : ctx->settings[FAILS].number ? ctx->api->fail(ctx->image, 5, "%s: fails, as it was told", ctx->pass) : 0;
}

__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI, .name = NAME, .help = "wants something, or takes it back", .options = options, .run = run,
    .flags = MVLD_PASS_ANALYSIS,
};
