/* SPDX-License-Identifier: MIT
 *
 * rimf/code/splice.c: code of passes in front of instructions (code_splice of mvld/pass.h).
 *
 * One instruction becomes one of the same length that leads to a trampoline (code/trampoline.c): whoever led to it
 * leads there now, and nobody can stand in the middle of it.
 *
 *     call f             e8 rel32             e8 rel32             call trampoline
 *     call *slot(%rip)   ff 15 rel32          67 e8 rel32          call trampoline
 *     of 5 to 14 bytes                        [2e …] e9 rel32      jmp trampoline, with prefixes that mean nothing
 *
 * A shorter one can make way at the entry of a function alone, where it is proven that nothing leads to the
 * instructions behind it (ANALYSIS_HEAD).  Calls are left where they stand, for return addresses are theirs.
 *
 * At one place there is one trampoline, which runs the code of all passes.  A later pass makes it anew; the one before
 * is not given back, since a thread may be in it.
 */
#include "rimf/code/code.h"

#include "rimf/base/base.h"
#include "rimf/moved/moved.h"
#include "rimf/patch/patch.h"
#include "rimf/x86/displace.h"
#include "rimf/x86/registers.h"

#include <errno.h> /* numbers only */

static int refuse(const struct mvld_context *ctx, const struct rimf_object *object, uintptr_t address, int error,
                  const char *why)
{
    return rimf_fail(ctx->image, error, "%s: %s: no code is spliced in at %lx: %s", ctx->pass,
                     object ? object->public.name : "nowhere", (unsigned long)(address - (object ? object->view.bias : 0)),
                     why);
}

/* ---- the list --------------------------------------------------------------------------------------- */

static int is_of(const struct code_splice *splice, const struct mvld_context *ctx)
{
    const struct code_spliced *s = splice->first;

    while (s && s->owner != ctx)
        s = s->next;
    return s != NULL;
}

static void drop_codes(struct mvld_image *image, struct code_splice *splice, const struct mvld_context *ctx)
{
    for (struct code_spliced **at = &splice->first; *at;) {
        struct code_spliced *s = *at;

        if (s->owner != ctx) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        rimf_heap_release(&image->heap, s);
    }
}

/* Those without code go. */
static void prune(struct mvld_image *image)
{
    for (struct code_splice **at = &image->splices; *at;) {
        struct code_splice *splice = *at;

        if (splice->first) {
            at = &splice->next;
            continue;
        }
        *at = splice->next;
        rimf_heap_release(&image->heap, splice);
    }
}

void rimf_splices_forget(struct mvld_image *image, const struct mvld_context *ctx)
{
    for (struct code_splice *splice = image->splices; splice; splice = splice->next)
        drop_codes(image, splice, ctx);
    prune(image);
}

/* Its object may be gone, and another one be there. */
static int is_stale(struct mvld_image *image, const struct code_splice *splice)
{
    return splice->is_made && (!rimf_object_find(image, splice->place) ||
                               memcmp((const void *)splice->place, splice->now, splice->length));
}

/* That which replaces a byte of these. */
static struct code_splice *find_splice(struct mvld_image *image, uintptr_t address, size_t length)
{
    for (struct code_splice *splice = image->splices; splice; splice = splice->next) {
        if (splice->place >= address + length || address >= splice->place + splice->length)
            continue;
        if (!is_stale(image, splice))
            return splice;
        drop_codes(image, splice, NULL);
    }
    prune(image);
    return NULL;
}

/* ---- what can make way ------------------------------------------------------------------------------- */

/* Where the code runs may be where it is spliced in: behind an endbr64. */
struct place {
    const struct analysis *s;
    const struct analysis_unit *unit;
    uintptr_t start; /* of the function */
    uint32_t offset; /* in it */
    const uint8_t *code;
    struct instruction i;
};

/* How it is unwound before each instruction that makes way, and behind. */
static const char *read_unwind(struct code_splice *splice, const struct place *p)
{
    struct code_frame frame;
    struct instruction i;
    uint32_t offset = p->offset;
    size_t k = 0;

    if (p->unit->reason)
        return analysis_reason_words((enum analysis_reason)p->unit->reason);
    if (code_frame_of(splice->object, p->s, p->unit, &frame))
        return "its unwind table is not understood";
    if (frame.has_pads)
        return "its function handles exceptions by the place of its instructions";
    for (; k < RIMF_COUNT(splice->unwind); k++, offset += i.length) {
        if (code_unwind_at(&frame, offset, &splice->unwind[k]) ||
            (splice->unwind[k].base != CODE_UNWIND_RSP && splice->unwind[k].base != 6 /* %rbp */))
            return "its unwind table takes more than offsets";
        if (offset == p->offset + splice->length)
            return NULL;
        if (!decode(p->code + (offset - p->offset), p->unit->size - offset, &i) || i.prefixes & PREFIX_LOCK)
            break; /* behind a lock prefix others may lead */
    }
    return "it may not run elsewhere";
}

/* Several instructions at the entry. */
static const char *read_head(struct code_splice *splice, const struct place *p)
{
    struct displaced head;
    const char *why;

    if (!(p->unit->flags & ANALYSIS_HEAD) ||
        p->offset != endbr64_size((const uint8_t *)p->start, p->unit->size))
        return "it is shorter than a jump";
    if (displace((const uint8_t *)p->start, p->unit->size, p->start, p->start + p->offset, &head, &why))
        return why;
    if (head.length > SPLICE_LONGEST)
        return "the instructions under a jump are too long";
    splice->length = head.length;
    return NULL;
}

/* One instruction of five bytes or more. */
static const char *read_single(const struct place *p)
{
    enum flow flow = instruction_flow(&p->i);
    uint8_t bytes[16];

    if (p->i.odd || flow == FLOW_CALL_INDIRECT || flow == FLOW_END)
        return "such an instruction cannot run elsewhere";
    if (p->i.length > SPLICE_LONGEST)
        return "it is too long";
    if (displace_one(p->code, p->start + p->offset, p->start + p->offset, &p->i, bytes))
        return "its operand is not understood";
    return NULL;
}

static const char *read_instruction(struct code_splice *splice, const struct place *p)
{
    const struct instruction *i = &p->i;
    const char *why;

    splice->length = i->length;
    if (instruction_is(i, 0, 0xe8) && i->immediate_size == 4 && i->length <= SPLICE_LONGEST) {
        splice->way = SPLICE_CALL;
        return NULL;
    }
    if (instruction_is(i, 0, 0xff) && i->rip && i->length == 6 && modrm_reg(i) == 2) {
        splice->way = SPLICE_CALL_SLOT;
        return NULL;
    }
    splice->way = SPLICE_MOVED;
    why = i->length < DISPLACE_JUMP ? read_head(splice, p) : read_single(p);
    return why ? why : read_unwind(splice, p);
}

/* ---- declaring ----------------------------------------------------------------------------------------- */

/* Nothing but whole instructions has replaced others since its analysis was compared with it. */
static const char *unsure(struct mvld_image *image, const struct rimf_object *object, const struct place *p)
{
    return !object->code_known ? "it is not certain that its code is that of its file"
           : rimf_is_kept_original(image, p->start) ? "mvld stands in front of its function"
                                                    : NULL;
}

/* The instruction, behind an endbr64. */
static int find_place(const struct mvld_context *ctx, struct rimf_object *object, uintptr_t address, struct place *p,
                      uint32_t *live)
{
    struct code_instructions all;
    const struct mvld_instruction *at;
    const char *why;
    int error;

    p->unit = code_unit_at(ctx->image, object, address, &p->s, &why);
    if (!p->unit)
        return refuse(ctx, object, address, ENODATA, why);
    p->start = object->view.bias + p->unit->start;
    error = code_instructions_at(ctx->image, object, p->s, p->unit, &all, &why);
    if (error)
        return refuse(ctx, object, address, -error, why);
    at = code_instruction_at(&all, address);
    if (at && at + 1 < all.list + all.n && endbr64_size((const uint8_t *)address, at->length))
        at++;
    p->offset = at ? (uint32_t)(at->address - p->start) : 0;
    *live = at && at->flow != MVLD_FLOW_CALL && at->flow != MVLD_FLOW_CALL_INDIRECT ? at->live
                                                                                      : MVLD_LIVE_FLAGS | REGISTERS_ALL;
    code_instructions_release(&ctx->image->heap, &all);
    if (!at)
        return refuse(ctx, object, address, EINVAL, "no instruction begins there");
    p->code = (const uint8_t *)p->start + p->offset;
    decode(p->code, p->unit->size - p->offset, &p->i);
    why = unsure(ctx->image, object, p);
    return why ? refuse(ctx, object, address, ENODATA, why) : 0;
}

/* A new one, in the list; or NULL, and *error. */
static struct code_splice *make_splice(const struct mvld_context *ctx, struct rimf_object *object, uintptr_t address,
                                       const struct place *p, uint32_t live, int *error)
{
    struct code_splice *splice = rimf_heap_alloc(&ctx->image->heap, sizeof *splice);
    uint8_t frame[MVLD_FRAME_MAX];
    size_t frame_size;
    const char *why;

    if (!splice) {
        *error = refuse(ctx, object, address, ENOMEM, "out of memory");
        return NULL;
    }
    splice->object = object;
    splice->place = p->start + p->offset;
    splice->live = live;
    why = read_instruction(splice, p);
    if (!why) {
        memcpy(splice->old, p->code, splice->length);
        code_trampoline(splice, splice->place, NULL, frame, &frame_size, &why);
    }
    *error = why                                                     ? refuse(ctx, object, address, ENOTSUP, why)
             : find_splice(ctx->image, splice->place, splice->length) ? refuse(ctx, object, address, EEXIST,
                                                                               "one beside it replaces it")
                                                                     : 0;
    if (*error) {
        rimf_heap_release(&ctx->image->heap, splice);
        return NULL;
    }
    splice->next = ctx->image->splices;
    ctx->image->splices = splice;
    return splice;
}

static int add_code(const struct mvld_context *ctx, struct code_splice *splice, mvld_splice_code *code, void *cookie)
{
    struct code_spliced *s = rimf_heap_alloc(&ctx->image->heap, sizeof *s), **end = &splice->first;

    if (!s) {
        prune(ctx->image);
        return refuse(ctx, splice->object, splice->place, ENOMEM, "out of memory");
    }
    while (*end)
        end = &(*end)->next;
    *s = (struct code_spliced){NULL, ctx, code, cookie};
    *end = s;
    return 0;
}

int rimf_code_splice(const struct mvld_context *ctx, uintptr_t address, mvld_splice_code *code, void *cookie)
{
    struct mvld_image *image = rimf_context_image(ctx);
    const struct mvld_object *public = image ? rimf_object_find(image, address) : NULL;
    struct rimf_object *object = (struct rimf_object *)rimf_object_of(public);
    int error = rimf_only_in(image, RIMF_STAGE_RUN, ctx ? ctx->pass : "");
    struct code_splice *splice;
    const char *why = NULL;
    struct place place;
    uint32_t live = 0;

    if (error)
        return error;
    if (!public || !code)
        return refuse(ctx, object, address, EINVAL, public ? "there is no code" : "no object lies there");
    if (public->why || image->watch)
        return refuse(ctx, object, address, ENOTSUP, public->why ? public->why : "no snapshot holds such code");
    if (!moved_region(image, &why))
        return refuse(ctx, object, address, ENOTSUP, why);
    if (rimf_image_is_traced(image))
        return refuse(ctx, object, address, EBUSY, "a debugger may have breakpoints in the code");
    error = find_place(ctx, object, address, &place, &live);
    if (error)
        return error;
    splice = find_splice(image, place.start + place.offset, 1);
    if (splice && splice->place != place.start + place.offset)
        return refuse(ctx, object, address, EEXIST, "one beside it replaces it");
    if (!splice)
        splice = make_splice(ctx, object, address, &place, live, &error);
    return splice ? add_code(ctx, splice, code, cookie) : error;
}

/* ---- trampolines ------------------------------------------------------------------------------------------ */

#define ALIGN 16u

static size_t count(const struct mvld_image *image, const struct mvld_context *ctx)
{
    size_t n = 0;

    for (const struct code_splice *splice = image->splices; splice; splice = splice->next)
        n += (size_t)is_of(splice, ctx);
    return n;
}

static void lead(struct code_splice *splice, uintptr_t to)
{
    uint8_t opcode = splice->way == SPLICE_MOVED ? 0xe9 : 0xe8;
    int32_t distance = (int32_t)(to - splice->place - splice->length);

    memset(splice->then, splice->way == SPLICE_MOVED ? 0x2e : 0x67, sizeof splice->then); /* %cs, addr32 */
    if (splice->way == SPLICE_CALL)
        memcpy(splice->then, splice->old, splice->length);
    splice->then[splice->length - 5] = opcode;
    memcpy(splice->then + splice->length - 4, &distance, sizeof distance);
}

/* What code_add must be told; *size: bytes of code.  NULL: no memory. */
static struct mvld_new_function *describe_all(const struct mvld_context *ctx, size_t n, size_t *size)
{
    struct mvld_new_function *list = rimf_heap_alloc(&ctx->image->heap, n * (sizeof *list + MVLD_FRAME_MAX));
    uint8_t *frames = (uint8_t *)(list + n);
    const char *why;
    size_t i = 0;

    *size = 0;
    for (struct code_splice *splice = ctx->image->splices; list && splice; splice = splice->next) {
        if (!is_of(splice, ctx))
            continue;
        list[i] = (struct mvld_new_function){.name = "splice", .offset = (uint32_t)*size, .frame = frames};
        list[i].size = (uint32_t)code_trampoline(splice, splice->place, NULL, frames, &list[i].frame_size, &why);
        *size += (list[i++].size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
        frames += MVLD_FRAME_MAX;
    }
    return list;
}

static int write_all(const struct mvld_context *ctx, uint8_t *code, const struct mvld_new_function *list)
{
    uint8_t frame[MVLD_FRAME_MAX];
    size_t i = 0, frame_size;
    const char *why;

    for (struct code_splice *splice = ctx->image->splices; splice; splice = splice->next) {
        uint8_t *to = is_of(splice, ctx) ? code + list[i++].offset : NULL;
        intptr_t away = (intptr_t)((uintptr_t)to - splice->place - splice->length);

        if (!to)
            continue;
        code_trampoline(splice, (uintptr_t)to, to, frame, &frame_size, &why);
        if (why || away != (int32_t)away)
            return refuse(ctx, splice->object, splice->place, ERANGE, why ? why : "the trampoline is out of reach");
        lead(splice, (uintptr_t)to);
    }
    return 0;
}

int rimf_splices_make(struct mvld_image *image, const struct mvld_context *ctx)
{
    size_t n = count(image, ctx), size;
    struct mvld_new_function *list;
    uint8_t *code;
    int error;

    if (!n)
        return 0;
    if (n > MVLD_SPLICES_MAX)
        return rimf_fail(image, E2BIG, "%s: code in front of more than %u instructions", ctx->pass, MVLD_SPLICES_MAX);
    list = describe_all(ctx, n, &size);
    if (!list)
        return rimf_fail(image, ENOMEM, "%s: memory is short", ctx->pass);
    image->stage = RIMF_STAGE_RUN; /* it is still the pass that adds code */
    code = ctx->api->code_add(ctx, size, list, n, 0);
    image->stage = RIMF_STAGE_NONE;
    error = code ? write_all(ctx, code, list) : -ENOMEM;
    rimf_heap_release(&image->heap, list);
    return error;
}

/* ---- leading there ------------------------------------------------------------------------------------------ */

static int fill(const struct mvld_context *ctx, struct mvld_batch *batch)
{
    int error = 0, unentered = 1;

    for (struct code_splice *splice = ctx->image->splices; splice && !error; splice = splice->next) {
        if (!is_of(splice, ctx))
            continue;
        unentered &= rimf_object_unentered(ctx->image, splice->object);
        error = rimf_patch_add(batch, splice->place, splice->is_made ? splice->now : splice->old, splice->then,
                               splice->length);
    }
    if (unentered)
        rimf_patch_unentered(batch);
    return error ? rimf_fail(ctx->image, -error, "%s: out of memory for patches", ctx->pass) : 0;
}

static void note_made(const struct mvld_context *ctx)
{
    for (struct code_splice *splice = ctx->image->splices; splice; splice = splice->next) {
        if (!is_of(splice, ctx))
            continue;
        splice->object->patched |= OBJECT_SPLICED;
        splice->is_made = 1;
        memcpy(splice->now, splice->then, sizeof splice->now);
        for (struct code_spliced *s = splice->first; s; s = s->next)
            s->owner = NULL;
    }
}

int rimf_splices_commit(struct mvld_image *image, const struct mvld_context *ctx)
{
    struct mvld_patch_report report = {.refused = 0};
    size_t n = count(image, ctx);
    struct mvld_batch *batch;
    int error;

    if (!n)
        return 0;
    batch = rimf_patch_begin(image);
    error = batch ? fill(ctx, batch) : -ENOMEM;
    error = error ? error : rimf_patch_commit(batch, &report);
    if (!error && report.refused) {
        rimf_patch_take_back(image, batch);
        error = rimf_fail(image, EBUSY, "%s: code cannot be changed now: none is spliced in", ctx->pass);
    }
    rimf_patch_end(batch);
    if (error)
        return error;
    note_made(ctx);
    rimf_log(image->log, MVLD_LOG_PASSES | MVLD_LOG_STATISTICS, "%s: code runs in front of %zu instructions", ctx->pass,
             n);
    return 0;
}
