/* SPDX-License-Identifier: MIT
 *
 * edit.c: retargets references of some kinds from one function to another; and, as `wrong` says, makes an
 * edit that must be refused.
 */
#include <mvld/pass.h>

#ifndef NAME
#define NAME "edit"
#endif

enum { KINDS, FROM, TO, MOST, WRONG, LIST, WALK, EARLY };
enum { NOTHING, TWICE, UNPROVEN, UNRELOCATED, DATA, STALE, BEHIND, JUMP, STAGE, DISGUISED, SECTIONS, DOMAINS };

static const char *const kinds[] = {"call", "jump", "lea", "slot", "word", "all", NULL};
static const char *const wrongs[] = {"nothing", "twice", "unproven", "unrelocated", "data", "stale",
                                     "behind", "jump", "stage", "disguised", "sections", "domains", NULL};

static const struct mvld_option options[] = {
    {.name = "kinds", .type = MVLD_OPTION_WORD, .words = kinds, .initial = "all"},
    {.name = "from", .type = MVLD_OPTION_STRING, .initial = ""},
    {.name = "to", .type = MVLD_OPTION_STRING, .initial = "", .help = "a symbol; new: code that adds 100"},
    {.name = "most", .type = MVLD_OPTION_INT, .min = 0, .max = 10000000, .initial = "10000000"},
    {.name = "wrong", .type = MVLD_OPTION_WORD, .words = wrongs, .initial = "nothing"},
    {.name = "list", .type = MVLD_OPTION_BOOL, .initial = "no", .help = "says which there are, and changes none"},
    {.name = "walk", .type = MVLD_OPTION_BOOL, .initial = "no", .help = "looks at each function's instructions"},
    {.name = "early", .type = MVLD_OPTION_BOOL, .initial = "no", .help = "and then what passes before want is made"},
    {.name = NULL},
};

struct work {
    const struct mvld_context *ctx;
    uintptr_t from, to;
    int64_t n;
    struct mvld_reference last;
};

static int retarget(const struct mvld_context *ctx, struct mvld_reference reference, uintptr_t target)
{
    return ctx->api->reference_retarget(ctx, &reference, target);
}

static int wrong(struct work *w, const struct mvld_reference *reference)
{
    const struct mvld_context *ctx = w->ctx;
    struct mvld_reference other = *reference;
    struct mvld_symbol disguised;

    switch (ctx->settings[WRONG].number) {
    case TWICE: return retarget(ctx, other, w->to);
    case UNPROVEN: other.site++; return retarget(ctx, other, w->to);
    case DISGUISED: /* bytes of a lea, in the middle of an instruction */
        if (!ctx->api->symbol_resolve(ctx->image, "disguised", NULL, &disguised))
            other.site = disguised.address + 3;
        return retarget(ctx, other, w->to);
    case UNRELOCATED:
        other.kind = MVLD_REFERENCE_WORD;
        other.site = ctx->api->object_find(ctx->image, reference->site)->end - 8 & ~7ul; /* .bss */
        return retarget(ctx, other, w->to);
    case DATA: return retarget(ctx, other, (uintptr_t)ctx->api->object_at(ctx->image, 0)->dynamic);
    case STALE: other.target++; return retarget(ctx, other, w->to);
    case JUMP: other.kind = MVLD_REFERENCE_JUMP; return retarget(ctx, other, w->to);
    default: return 0;
    }
}

static int list(void *cookie, const struct mvld_reference *reference)
{
    const struct mvld_context *ctx = ((struct work *)cookie)->ctx;
    const struct mvld_object *object = ctx->api->object_find(ctx->image, reference->site);
    const struct mvld_object *holder = ctx->api->object_find(ctx->image, reference->target);

    ctx->api->log(ctx->image, MVLD_LOG_PASSES, "reference %d %s %lx %s %lx", (int)reference->kind,
                  object->name, reference->site - object->bias, holder ? holder->name : "none",
                  holder ? reference->target - holder->bias : 0);
    return 0;
}

static int visit(void *cookie, const struct mvld_reference *reference)
{
    struct work *w = cookie;
    const struct mvld_context *ctx = w->ctx;
    int error;

    if (reference->target != w->from || w->n == ctx->settings[MOST].number)
        return 0;
    if (ctx->settings[WRONG].number < DATA || ctx->settings[WRONG].number >= BEHIND) {
        error = retarget(ctx, *reference, w->to);
        if (error)
            return error;
    }
    w->n++;
    w->last = *reference;
    return wrong(w, reference);
}

/* A patch of the pass has changed the target of the last reference, a call, before the pass ends. */
static int behind(const struct work *w)
{
    const struct mvld_api *api = w->ctx->api;
    struct mvld_batch *batch = api->patch_begin(w->ctx->image);
    int32_t now = (int32_t)(w->last.target - (w->last.site + 5)), other = (int32_t)(w->to - (w->last.site + 5));

    if (w->last.kind != MVLD_REFERENCE_CALL)
        return -22;
    api->patch_add(batch, w->last.site + 1, &now, &other, 4);
    api->patch_commit(batch, NULL);
    api->patch_end(batch);
    return 0;
}

static uintptr_t find_target(const struct mvld_context *ctx)
{
    const char *to = ctx->settings[TO].text;
    struct mvld_symbol symbol;
    uint8_t *code;

    if (to[0] != 'n' || to[1] != 'e' || to[2] != 'w' || to[3])
        return ctx->api->symbol_resolve(ctx->image, to, NULL, &symbol) ? 0 : symbol.address;
    code = ctx->api->section_add(ctx, MVLD_SECTION_CODE, 4);
    if (code)
        code[0] = 0x8d, code[1] = 0x47, code[2] = 100, code[3] = 0xc3; /* lea 100(%rdi), %eax; ret */
    return (uintptr_t)code;
}

/* Far more than there may be: refused, soon. */
static int too_many(const struct mvld_context *ctx)
{
    for (int i = 0; i < 1000000; i++) {
        if (ctx->settings[WRONG].number == DOMAINS) {
            long number = ctx->api->domain_add(ctx->image, "another");
            if (number < 0)
                return (int)number;
        } else if (!ctx->api->section_add(ctx, MVLD_SECTION_DATA, 1)) {
            return -7; /* E2BIG */
        }
    }
    return 0;
}

struct seen { size_t n, calls; uintptr_t to; };

static int see(void *cookie, const struct mvld_instruction *i)
{
    struct seen *seen = cookie;

    seen->n++;
    seen->calls += (i->flow == MVLD_FLOW_CALL || i->flow == MVLD_FLOW_JUMP) && i->target == seen->to;
    return 0;
}

static int find(void *cookie, const struct mvld_reference *reference)
{
    struct work *w = cookie;
    struct mvld_function function;

    w->ctx->api->function_find(w->ctx->image, reference->site, &function); /* which reads more of the analysis */
    w->n++;
    return 0;
}

static void find_each(const struct mvld_context *ctx, const struct mvld_object *object)
{
    uint32_t calls = MVLD_REFERENCES(MVLD_REFERENCE_CALL_PLT) | MVLD_REFERENCES(MVLD_REFERENCE_CALL_SLOT);
    struct work w = {.ctx = ctx};
    const char *why;

    ctx->api->reference_each(ctx->image, object, calls, find, &w, &why);
    ctx->api->log(ctx->image, MVLD_LOG_PASSES, "calls %s %d", object->name, (int)w.n);
}

static int walk(void *cookie, const struct mvld_function *function)
{
    const struct mvld_context *ctx = cookie;
    struct seen seen = {.to = find_target(ctx)};
    const char *why = NULL;

    if (ctx->settings[EARLY].number) /* what passes before want is made: code moves */
        ctx->api->patch_end(ctx->api->patch_begin(ctx->image));
    ctx->api->instruction_each(ctx->image, function, see, &seen, &why);
    ctx->api->log(ctx->image, MVLD_LOG_PASSES, "function %s %zu calls %zu", function->name ? function->name : "none",
                  seen.n, seen.calls);
    return 0;
}

static int run(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    static const uint32_t bits[] = {
        MVLD_REFERENCES(MVLD_REFERENCE_CALL), MVLD_REFERENCES(MVLD_REFERENCE_JUMP),
        MVLD_REFERENCES(MVLD_REFERENCE_LEA), MVLD_REFERENCES(MVLD_REFERENCE_SLOT),
        MVLD_REFERENCES(MVLD_REFERENCE_WORD), MVLD_REFERENCES_ALL};
    struct work w = {.ctx = ctx};
    struct mvld_symbol from;
    const char *why = "";
    int error = 0;

    if (ctx->settings[WRONG].number >= SECTIONS)
        return too_many(ctx);
    for (size_t i = 0; i < n && ctx->settings[WALK].number; i++) {
        find_each(ctx, objects[i]);
        if (ctx->api->function_each(ctx->image, objects[i], walk, (void *)ctx, &why))
            ctx->api->log(ctx->image, MVLD_LOG_PASSES, "no functions: %s", why);
    }
    if (ctx->settings[WALK].number)
        return 0;
    for (size_t i = 0; i < n && ctx->settings[LIST].number && !error; i++)
        if (objects[i]->flags & MVLD_OBJECT_MAIN)
            error = ctx->api->reference_each(ctx->image, objects[i], MVLD_REFERENCES_ALL, list, &w, &why);
    if (ctx->settings[LIST].number)
        return error;
    if (ctx->api->symbol_resolve(ctx->image, ctx->settings[FROM].text, NULL, &from))
        return ctx->api->fail(ctx->image, 2, "edit: there is no %s", ctx->settings[FROM].text);
    w.from = from.address;
    w.to = find_target(ctx);
    if (!w.to)
        return ctx->api->fail(ctx->image, 2, "edit: there is no %s", ctx->settings[TO].text);
    for (size_t i = 0; i < n && !error; i++)
        if (!objects[i]->why && (objects[i]->flags & MVLD_OBJECT_MAIN || ctx->later))
            error = ctx->api->reference_each(ctx->image, objects[i], bits[ctx->settings[KINDS].number], visit,
                                             &w, &why);
    ctx->api->log(ctx->image, MVLD_LOG_PASSES, "edit: %ld references%s%s", (long)w.n, *why ? ": " : "", why);
    return error ? error : ctx->settings[WRONG].number == BEHIND ? behind(&w) : 0;
}

static const char *rule(const struct mvld_context *ctx, const struct mvld_object *object,
                        const struct mvld_binding *bound, uintptr_t *target)
{
    (void)ctx;
    (void)object;
    *target = bound->target;
    return NULL;
}

/* What belongs into the stage run. */
static int relocate(const struct mvld_context *ctx, const struct mvld_object *const *objects, size_t n)
{
    struct mvld_reference reference = {.site = objects[0]->start, .kind = MVLD_REFERENCE_LEA};

    if (ctx->settings[WRONG].number != STAGE || !n)
        return 0;
    if (ctx->api->code_add(ctx, 1, NULL, 0, 0) || ctx->api->domain_add(ctx->image, "x") != -1 ||
        ctx->api->domain_move(ctx->image, objects[0], 0) != -1 || retarget(ctx, reference, objects[0]->start) != -1 ||
        ctx->api->calls_retarget(ctx, objects[0], rule) != -1)
        return 0;
    return ctx->api->fail(ctx->image, 1, "edit: all were refused");
}

#ifdef MAPS
/* Nor do they belong here: what is not refused keeps the program from starting. */
static int map(const struct mvld_context *ctx, const struct mvld_file *file)
{
    struct mvld_reference reference = {.site = (uintptr_t)file->bytes, .kind = MVLD_REFERENCE_LEA};

    return ctx->api->section_add(ctx, MVLD_SECTION_DATA, 1) || ctx->api->domain_add(ctx->image, "x") != -1 ||
                   retarget(ctx, reference, (uintptr_t)file->bytes) != -1
               ? -1 : 0;
}
#endif

__attribute__((visibility("default"))) const struct mvld_pass mvld_pass = {
    .abi = MVLD_PASS_ABI, .name = NAME, .help = "references lead elsewhere", .options = options, .run = run,
#ifdef MAPS
    .map = map,
#endif
#ifdef FREEZES
    .flags = MVLD_PASS_ANALYSIS | MVLD_PASS_FREEZES,
#else
    .relocate = relocate, .flags = MVLD_PASS_ANALYSIS,
#endif
};
