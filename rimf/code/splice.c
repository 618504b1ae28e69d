/* SPDX-License-Identifier: MIT
 *
 * rimf/code/splice.c: code of passes before instructions (code_splice of mvld/pass.h).
 *
 * One instruction is replaced by one of the same length that jumps to a trampoline (code/trampoline.c):
 * whatever reached it reaches that, and no thread can stand inside it.
 *
 *     call f             e8 rel32             e8 rel32             call trampoline
 *     call *slot(%rip)   ff 15 rel32          67 e8 rel32          call trampoline
 *     of 5 to 14 bytes                        [2e …] e9 rel32      jmp trampoline, with prefixes that mean nothing
 *
 * code/place.c decides which instructions are possible.  Calls stay in place, because of their return
 * addresses.
 *
 * Each place has one trampoline, which runs the code of all passes.  A later pass makes a new one; the old
 * one is not freed, since a thread may be in it.
 */
#include "rimf/code/code.h"

#include "rimf/base/base.h"
#include "rimf/emit/changes.h"
#include "rimf/moved/moved.h"

#include <errno.h> /* numbers only */

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

/* Removes those without code. */
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

/* Its object may be closed, and another one mapped there. */
static int is_stale(struct mvld_image *image, const struct code_splice *splice)
{
    return splice->is_made && (!rimf_object_find(image, splice->place) ||
                               memcmp((const void *)splice->place, splice->now, splice->length));
}

/* The splice that replaces one of these bytes. */
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

static const char beside[] = "one beside it replaces it";

/* ---- declaring ----------------------------------------------------------------------------------------- */

/* Adds a new one to the list; or returns NULL, and *error. */
static struct code_splice *make_splice(const struct mvld_context *ctx, struct rimf_object *object, uintptr_t address,
                                       const struct code_place *p, int *error)
{
    struct code_splice *splice = rimf_heap_alloc(&ctx->image->heap, sizeof *splice);
    uint8_t frame[MVLD_FRAME_MAX];
    size_t frame_size;
    const char *why;

    if (!splice) {
        *error = code_refuse(ctx, object, address, ENOMEM, "out of memory");
        return NULL;
    }
    splice->object = object;
    splice->place = p->start + p->offset;
    splice->live = p->live;
    why = code_place_read(splice, p);
    if (!why) {
        memcpy(splice->old, p->code, splice->length);
        code_trampoline(splice, splice->place, NULL, frame, &frame_size, &why);
    }
    *error = why ? code_refuse(ctx, object, address, ENOTSUP, why)
             : find_splice(ctx->image, splice->place, splice->length) ? code_refuse(ctx, object, address, EEXIST, beside)
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
        return code_refuse(ctx, splice->object, splice->place, ENOMEM, "out of memory");
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
    struct code_place place;

    if (error)
        return error;
    if (!public || !code)
        return code_refuse(ctx, object, address, EINVAL, public ? "there is no code" : "no object lies there");
    if (public->why || image->watch)
        return code_refuse(ctx, object, address, ENOTSUP, public->why ? public->why : "no snapshot holds such code");
    if (!moved_region(image, &why))
        return code_refuse(ctx, object, address, ENOTSUP, why);
    if (rimf_image_is_traced(image))
        return code_refuse(ctx, object, address, EBUSY, "a debugger may have breakpoints in the code");
    error = code_place_find(ctx, object, address, &place);
    if (error)
        return error;
    splice = find_splice(image, place.start + place.offset, 1);
    if (splice && splice->place != place.start + place.offset)
        return code_refuse(ctx, object, address, EEXIST, beside);
    if (!splice)
        splice = make_splice(ctx, object, address, &place, &error);
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

/* The functions for code_add; *size: bytes of code.  NULL: no memory. */
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
            return code_refuse(ctx, splice->object, splice->place, ERANGE, why ? why : "the trampoline is out of reach");
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
    image->stage = RIMF_STAGE_RUN; /* the pass is still adding code */
    code = ctx->api->code_add(ctx, size, list, n, 0);
    image->stage = RIMF_STAGE_NONE;
    error = code ? write_all(ctx, code, list) : -ENOMEM;
    rimf_heap_release(&image->heap, list);
    return error;
}

/* ---- leading there ------------------------------------------------------------------------------------------ */

static void note_made(const struct mvld_context *ctx)
{
    for (struct code_splice *splice = ctx->image->splices; splice; splice = splice->next) {
        if (!is_of(splice, ctx))
            continue;
        splice->object->code.patched |= OBJECT_SPLICED;
        splice->object->code.patched_by = ctx;
        splice->is_made = 1;
        memcpy(splice->now, splice->then, sizeof splice->now);
        for (struct code_spliced *s = splice->first; s; s = s->next)
            s->owner = NULL;
    }
}

int rimf_splices_commit(struct mvld_image *image, const struct mvld_context *ctx)
{
    struct changes list = {.image = image, .unentered = 1};
    size_t n = 0;
    int error;

    for (struct code_splice *splice = image->splices; splice; splice = splice->next) {
        if (!is_of(splice, ctx))
            continue;
        list.unentered &= rimf_object_unentered(image, splice->object);
        changes_add(&list, splice->place, splice->is_made ? splice->now : splice->old, splice->then, splice->length);
        n++;
    }
    if (!n)
        return 0;
    error = changes_all(&list);
    changes_end(&list);
    if (error)
        return rimf_fail(image, -error, "%s: code cannot be changed now: none is spliced in", ctx->pass);
    note_made(ctx);
    rimf_log(image->log, MVLD_LOG_PASSES | MVLD_LOG_STATISTICS, "%s: code runs in front of %zu instructions", ctx->pass,
             n);
    return 0;
}
