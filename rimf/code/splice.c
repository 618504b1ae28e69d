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
 * Splices are declared here, and made by realise/splices.c after everything else that passes want: the trampoline
 * runs the instruction with the target that they want.  Each place has one trampoline, which runs the code of all
 * passes.  If code is added for a place at a later dlopen, a new trampoline is made; the old one is not freed, since
 * a thread may be in it.
 */
#include "rimf/code/code.h"

#include "rimf/base/base.h"
#include "rimf/moved/moved.h"

#include <errno.h> /* numbers only */

/* ---- the list --------------------------------------------------------------------------------------- */

/* The pass has code there that is not made. */
static int is_of(const struct code_splice *splice, const struct mvld_context *ctx)
{
    const struct code_spliced *s = splice->first;

    while (s && (s->is_made || s->ctx != ctx))
        s = s->next;
    return s != NULL;
}

/* That of this pass which is not made; with NULL all. */
static void drop_codes(struct mvld_image *image, struct code_splice *splice, const struct mvld_context *ctx)
{
    for (struct code_spliced **at = &splice->first; *at;) {
        struct code_spliced *s = *at;

        if (ctx && (s->is_made || s->ctx != ctx)) {
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

/* Objects with wanted splices stay where they are. */
static void note_objects(struct mvld_image *image, int wanted)
{
    for (struct code_splice *splice = image->splices; splice; splice = splice->next) {
        struct rimf_object *object = splice->object;

        if (splice->is_made)
            continue;
        object->code.patched &= ~OBJECT_TO_SPLICE;
        if (!wanted)
            continue;
        object->code.patched |= OBJECT_TO_SPLICE;
        object->code.patched_by = splice->first->ctx;
    }
}

void rimf_splices_forget(struct mvld_image *image, const struct mvld_context *ctx)
{
    if (!image->splices)
        return;
    note_objects(image, 0);
    for (struct code_splice *splice = image->splices; splice; splice = splice->next)
        drop_codes(image, splice, ctx);
    prune(image);
    note_objects(image, 1);
}

int rimf_splices_check(struct mvld_image *image, const struct mvld_context *ctx)
{
    for (const struct code_splice *splice = image->splices; splice; splice = splice->next)
        if (is_of(splice, ctx) && splice->object->moved && !splice->is_made)
            return code_refuse(ctx, splice->object, splice->place, EEXIST, "the pass moves it");
    note_objects(image, 1);
    return 0;
}

/* Its object may be closed, and another one mapped there. */
static int is_stale(const struct mvld_image *image, const struct code_splice *splice)
{
    return splice->is_made && (!rimf_object_find(image, splice->place) ||
                               memcmp((const void *)splice->place, splice->now, splice->length));
}

/* The splice that replaces one of these bytes. */
static struct code_splice *find_splice(struct mvld_image *image, uintptr_t address, size_t length)
{
    struct code_splice *found = NULL;
    int stale = 0;

    for (struct code_splice *splice = image->splices; splice; splice = splice->next) {
        if (splice->place >= address + length || address >= splice->place + splice->length)
            continue;
        if (!is_stale(image, splice)) {
            found = splice;
            continue;
        }
        drop_codes(image, splice, NULL);
        stale = 1;
    }
    if (stale)
        prune(image);
    return found;
}

struct code_splice *code_splice_at(const struct mvld_image *image, uintptr_t address)
{
    struct code_splice *splice = image->splices;

    while (splice && (splice->place != address || !splice->is_made))
        splice = splice->next;
    return splice && !is_stale(image, splice) ? splice : NULL;
}

const struct mvld_context *code_spliced_by(const struct mvld_image *image, uintptr_t start, size_t size)
{
    const struct code_splice *splice = image->splices;

    while (splice && splice->place - start >= size)
        splice = splice->next;
    return splice ? splice->first->ctx : NULL;
}

static int refuse_beside(const struct mvld_context *ctx, const struct code_splice *other, uintptr_t address)
{
    char why[128];

    rimf_format(why, sizeof why, "one of the pass '%s' beside it replaces it", other->first->ctx->pass);
    return code_refuse(ctx, other->object, address, EEXIST, why);
}

/* ---- declaring ----------------------------------------------------------------------------------------- */

/* Trampolines are put behind all code that moves until then: wherever that is, everything must be within reach. */
static const char *out_of_reach(const struct mvld_image *image, const struct code_splice *splice)
{
    const struct moved_code *moved = image->moved;
    uintptr_t ends[2] = {moved->code_end, moved->region.code + moved->region.code_size};
    uint8_t frame[MVLD_FRAME_MAX];
    const char *why = NULL;
    size_t frame_size;

    for (size_t i = 0; i < RIMF_COUNT(ends) && !why; i++) {
        intptr_t away = (intptr_t)(ends[i] - splice->place - splice->length);

        code_trampoline(image, splice, ends[i], NULL, frame, &frame_size, &why);
        why = away != (int32_t)away ? "the trampoline is out of reach" : why;
    }
    return why;
}

/* Adds a new one to the list; or returns NULL, and *error. */
static struct code_splice *make_splice(const struct mvld_context *ctx, struct rimf_object *object, uintptr_t address,
                                       const struct code_place *p, int *error)
{
    struct mvld_image *image = ctx->image;
    struct code_splice *splice = rimf_heap_alloc(&image->heap, sizeof *splice);
    const struct code_splice *other;
    const char *why = "out of memory";

    *error = ENOMEM;
    if (splice) {
        splice->object = object;
        splice->place = p->start + p->offset;
        splice->live = p->live;
        *error = ENOTSUP;
        why = code_place_read(splice, p);
        memcpy(splice->old, p->code, why ? 0 : splice->length);
        why = why ? why : out_of_reach(image, splice);
    }
    other = why ? NULL : find_splice(image, splice->place, splice->length);
    if (why || other) {
        *error = other ? refuse_beside(ctx, other, address) : code_refuse(ctx, object, address, *error, why);
        rimf_heap_release(&image->heap, splice);
        return NULL;
    }
    splice->next = image->splices;
    image->splices = splice;
    return splice;
}

static int add_code(const struct mvld_context *ctx, struct code_splice *splice, mvld_splice_code *code, void *cookie)
{
    struct code_spliced *s = rimf_heap_alloc(&ctx->image->heap, sizeof *s), **end = &splice->first;

    if (!s) {
        prune(ctx->image);
        return code_refuse(ctx, splice->object, splice->place, ENOMEM, "out of memory");
    }
    ctx->image->n_spliced += !is_of(splice, ctx);
    while (*end)
        end = &(*end)->next;
    *s = (struct code_spliced){NULL, ctx, code, cookie, 0};
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
    if (image->n_spliced == MVLD_SPLICES_MAX)
        return code_refuse(ctx, object, address, E2BIG, "the pass wants code before too many others");
    splice = find_splice(image, place.start + place.offset, 1);
    if (splice && splice->place != place.start + place.offset)
        return refuse_beside(ctx, splice, address);
    if (!splice)
        splice = make_splice(ctx, object, address, &place, &error);
    return splice ? add_code(ctx, splice, code, cookie) : error;
}
