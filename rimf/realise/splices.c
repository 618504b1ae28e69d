/* SPDX-License-Identifier: MIT
 *
 * rimf/realise/splices.c: makes the splices that passes declared (code/splice.c), all of a pass or none.  All other
 * edits are made by then, so a trampoline runs the instruction that is in memory now.
 *
 * The trampolines of all passes are one section of code, as if the pass of the last declared one had added it
 * (realise/added.c).
 */
#include "rimf/realise/realise.h"

#include "rimf/base/base.h"
#include "rimf/code/code.h"
#include "rimf/emit/changes.h"
#include "rimf/moved/moved.h"

#include <errno.h> /* numbers only */

#define ALIGN 16u

/* The first pass with code there that is to be made; NULL: none. */
static const struct mvld_context *owner_of(const struct mvld_image *image, const struct code_splice *splice)
{
    const struct code_spliced *s = splice->first;

    while (s && (s->is_made || !code_spliced_counts(image, s)))
        s = s->next;
    return s ? s->ctx : splice->is_other ? splice->first->ctx : NULL;
}

/* The next one that is to be made, from this one on; or NULL. */
static struct code_splice *next_of(const struct mvld_image *image, struct code_splice *splice)
{
    while (splice && !owner_of(image, splice))
        splice = splice->next;
    return splice;
}

#define EACH(splice, image) \
    struct code_splice *splice = next_of(image, (image)->splices); splice; splice = next_of(image, splice->next)

int rimf_splices_wait(const struct mvld_image *image)
{
    return next_of(image, image->splices) != NULL;
}

/* The splice's pass fails, and no other. */
static int refuse(const struct mvld_image *image, const struct code_splice *splice, const struct mvld_context **ctx,
                  int error, const char *why)
{
    *ctx = owner_of(image, splice);
    return code_refuse(*ctx, splice->object, splice->place, error, why);
}

/* ---- trampolines ------------------------------------------------------------------------------ */

/* The functions of the code. */
struct functions {
    struct mvld_new_function *list;
    size_t n, size; /* size: bytes of code */
};

/* Adds the largest function that the splice may need, whose frame is put at `frame`.  NULL, or why it is impossible. */
static const char *describe(struct mvld_image *image, struct code_splice *splice, struct functions *f, uint8_t *frame)
{
    struct mvld_new_function *made = &f->list[f->n++];
    const char *why = splice->is_made ? NULL : code_place_read_again(image, splice);

    if (why)
        return why;
    *made = (struct mvld_new_function){.name = "splice", .offset = (uint32_t)f->size, .frame = frame};
    made->size = (uint32_t)code_trampoline(image, splice, splice->place, NULL, frame, &made->frame_size, &why);
    f->size += (made->size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    return why;
}

/* `list` is to be released.  0, or negative errno with a sentence, and the pass that fails. */
static int describe_all(struct mvld_image *image, const struct mvld_context **ctx, struct functions *f)
{
    const char *why = NULL;
    uint8_t *frames;
    size_t n = 0;

    for (EACH(splice, image))
        n++;
    *f = (struct functions){.list = rimf_heap_alloc(&image->heap, n * (sizeof *f->list + MVLD_FRAME_MAX))};
    if (!f->list)
        return rimf_fail(image, ENOMEM, "%s: no code is spliced in: out of memory", (*ctx)->pass);
    frames = (uint8_t *)(f->list + n);
    for (EACH(splice, image)) {
        why = describe(image, splice, f, frames + f->n * MVLD_FRAME_MAX);
        if (why)
            return refuse(image, splice, ctx, EBUSY, why);
    }
    return 0;
}

/* Encodes the branch to the trampoline, which replaces the instruction. */
static void encode_branch(struct code_splice *splice, uintptr_t to)
{
    uint8_t opcode = splice->way == SPLICE_MOVED ? 0xe9 : 0xe8;
    int32_t distance = (int32_t)(to - splice->place - splice->length);

    memset(splice->then, splice->way == SPLICE_MOVED ? 0x2e : 0x67, sizeof splice->then); /* %cs, addr32 */
    if (splice->way == SPLICE_CALL)
        memcpy(splice->then, splice->old, splice->length);
    splice->then[splice->length - 5] = opcode;
    memcpy(splice->then + splice->length - 4, &distance, sizeof distance);
}

static int write_all(struct mvld_image *image, const struct mvld_context **ctx, uint8_t *code,
                     const struct mvld_new_function *list)
{
    uint8_t frame[MVLD_FRAME_MAX];
    size_t i = 0, frame_size;
    const char *why;

    for (EACH(splice, image)) {
        uint8_t *to = code + list[i++].offset;
        intptr_t away = (intptr_t)((uintptr_t)to - splice->place - splice->length);

        code_trampoline(image, splice, (uintptr_t)to, to, frame, &frame_size, &why);
        if (why || away != (int32_t)away)
            return refuse(image, splice, ctx, ERANGE, why ? why : "the trampoline is out of reach");
        encode_branch(splice, (uintptr_t)to);
    }
    return 0;
}

/* Adds the code, as *ctx's.  After an error *ctx is the pass that fails. */
static int make_all(struct mvld_image *image, const struct mvld_context **ctx)
{
    const struct mvld_context *owner = *ctx;
    struct functions f;
    int error = describe_all(image, ctx, &f), failed;
    uint8_t *code = error ? NULL : rimf_code_place(owner, f.size, f.list, f.n, 0);

    if (code) {
        error = write_all(image, ctx, code, f.list);
        error = error ? error : rimf_new_sections_seal(image, owner);
        failed = rimf_added_realise(image, owner, error);
        error = error ? error : failed;
    } else if (!error) {
        error = rimf_fail(image, ENOMEM, "%s: no code is spliced in: %s", owner->pass, image->error);
    }
    rimf_heap_release(&image->heap, f.list);
    return error;
}

/* ---- branches to trampolines ------------------------------------------------------------------ */

/* Counts those of one pass, which are made. */
static size_t note_pass(struct mvld_image *image, const struct mvld_context *ctx)
{
    size_t n = 0;

    for (struct code_splice *splice = image->splices; splice; splice = splice->next) {
        int own = 0;

        for (struct code_spliced *s = splice->first; s; s = s->next) {
            own |= s->ctx == ctx && !s->is_made;
            s->is_made |= s->ctx == ctx;
        }
        n += (size_t)own;
    }
    return n;
}

static void note_made(struct mvld_image *image)
{
    const struct code_splice *first;

    for (EACH(splice, image)) {
        splice->object->code.patched = (splice->object->code.patched & ~OBJECT_TO_SPLICE) | OBJECT_SPLICED;
        splice->object->code.patched_by = splice->first->ctx;
        splice->is_made = 1;
        splice->is_other = 0;
        memcpy(splice->now, splice->then, sizeof splice->now);
    }
    while ((first = next_of(image, image->splices))) {
        const struct mvld_context *ctx = owner_of(image, first);

        rimf_log(image->log, MVLD_LOG_PASSES | MVLD_LOG_STATISTICS, "%s: code runs in front of %zu instructions",
                 ctx->pass, note_pass(image, ctx));
    }
}

static int commit_all(struct mvld_image *image, const struct mvld_context **ctx)
{
    struct changes list = {.image = image, .unentered = 1};
    int error;

    for (EACH(splice, image)) {
        list.unentered &= rimf_object_unentered(image, splice->object);
        changes_add(&list, splice->place, splice->is_made ? splice->now : splice->old, splice->then, splice->length);
    }
    error = changes_all(&list);
    for (EACH(splice, image))
        if (error && list.at - splice->place < splice->length)
            *ctx = owner_of(image, splice);
    changes_end(&list);
    return error ? rimf_fail(image, -error, "%s: no code is spliced in: %s", (*ctx)->pass, image->error) : 0;
}

const struct mvld_context *rimf_splices_emit(struct mvld_image *image, int *error)
{
    const struct code_splice *first = next_of(image, image->splices);
    const struct mvld_context *ctx = first ? owner_of(image, first) : NULL;

    *error = 0;
    if (!first || image->moved->n_planned > image->moved->n) /* the running pass's code is put there first */
        return NULL;
    *error = make_all(image, &ctx);
    *error = *error ? *error : commit_all(image, &ctx);
    if (!*error)
        note_made(image);
    for (struct code_splice *splice = image->splices; splice && *error; splice = splice->next)
        splice->is_other = 0; /* its former trampoline stays */
    return *error ? ctx : NULL;
}
