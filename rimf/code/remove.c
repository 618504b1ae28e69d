/* SPDX-License-Identifier: MIT
 *
 * rimf/code/remove.c: functions that passes remove (code_remove of mvld/pass.h).
 *
 * A function can be removed if no remaining code refers to it.  functions.c tells everything that holds an
 * address.  This file checks what the analysis lists: branches and operands of other functions, and functions
 * that run into it.  Those must be removed with it, which is checked when the pass has declared all.
 *
 *     entry:  [f3 0f 1e fa]  endbr64
 *             e8 rel32       call sentence        in one function of the object that has room for it
 *             0f 0b          ud2
 *             cc …           int3
 *     sentence: write(2, "mvld: …", …); ret
 *
 * Emitted after all other edits, in the original and in moved code.
 */
#include "rimf/code/code.h"

#include "rimf/base/base.h"
#include "rimf/emit/changes.h"
#include "rimf/moved/moved.h"
#include "rimf/x86/displace.h"

#include <errno.h> /* numbers only */

static int refuse(const struct mvld_context *ctx, const struct mvld_object *object, uintptr_t address, int error,
                  const char *why)
{
    return rimf_fail(ctx->image, error, "%s: %s: the function at %lx is not removed: %s", ctx->pass,
                     object ? object->name : "nowhere", (unsigned long)(address - (object ? object->bias : 0)), why);
}

/* ---- declaring ------------------------------------------------------------------------------------- */

static const char *held(const struct mvld_function *f, uint32_t flags)
{
    return f->flags & MVLD_FUNCTION_HELD    ? "a pointer, mvld, a pass, or code that is not understood leads to it"
           : f->flags & MVLD_FUNCTION_BOUND ? "an object of the process refers to it by name"
           : f->flags & MVLD_FUNCTION_EXPORTED && !(flags & MVLD_REMOVE_EXPORTED) ? "dlsym finds it" : NULL;
}

static int add(const struct mvld_context *ctx, struct rimf_object *object, const struct mvld_function *f)
{
    struct rimf_removals *all = &ctx->image->removals;
    int error = -ENOMEM;

    if (RIMF_ONE_MORE(&ctx->image->heap, all->list, all->n, all->room, 256))
        error = rimf_address_set_add(&all->entries, &ctx->image->heap, f->entry);
    if (error == -ENOMEM)
        return refuse(ctx, &object->public, f->entry, ENOMEM, "out of memory");
    if (error)
        return refuse(ctx, &object->public, f->entry, EEXIST, "it is already");
    all->list[all->n++] = (struct rimf_removal){ctx, object, f->entry, f->end - f->entry, 0};
    return 0;
}

int rimf_code_remove(const struct mvld_context *ctx, const struct mvld_function *function, uint32_t flags)
{
    struct mvld_image *image = rimf_context_image(ctx);
    const struct mvld_object *public = image && function ? rimf_object_find(image, function->entry) : NULL;
    struct rimf_object *object = (struct rimf_object *)rimf_object_of(public);
    int error = rimf_only_in(image, RIMF_STAGE_RUN, ctx ? ctx->pass : "");
    const struct mvld_context *by;
    struct mvld_function f;
    const char *why;

    if (error)
        return error;
    if (!public || flags & ~MVLD_REMOVE_EXPORTED || rimf_function_find(image, function->entry, &f) ||
        f.entry != function->entry)
        return refuse(ctx, public, function ? function->entry : 0, EINVAL, "there is none, or the flags are wrong");
    if (f.proof != MVLD_PROOF_MOVABLE)
        return refuse(ctx, public, f.entry, ENODATA, f.why);
    if (public->why || rimf_depends(image, public, 0))
        return refuse(ctx, public, f.entry, ENOTSUP, public->why ? public->why : "its object lies elsewhere each time");
    by = code_spliced_by(image, f.entry, f.end - f.entry);
    if (by)
        return rimf_fail(image, EEXIST, "%s: %s: the function at %lx is not removed: code of the pass '%s' runs in it",
                         ctx->pass, public->name, (unsigned long)(f.entry - public->bias), by->pass);
    if (!image->removals.n && rimf_image_is_traced(image))
        return refuse(ctx, public, f.entry, EBUSY, "a debugger may have breakpoints in the code");
    why = !rimf_object_unentered(image, object) ? "code of its object has run" : held(&f, flags);
    return why ? refuse(ctx, public, f.entry, EBUSY, why) : add(ctx, object, &f);
}

/* ---- what leads there ------------------------------------------------------------------------------- */

struct closing {
    const struct mvld_context *ctx;
    struct rimf_object *object;
    const struct analysis *s;
};

static int is_removed(const struct closing *c, const struct analysis_unit *unit)
{
    return unit && rimf_address_set_find(&c->ctx->image->removals.entries, c->object->view.bias + unit->start);
}

/* Whether the displacement at `at`, with so many bytes behind it in its instruction, refers from a remaining
 * function to a removed one. */
static int check_displacement(const struct closing *c, uint32_t at, uint32_t rest)
{
    uint32_t target = at + 4 + rest + (uint32_t)distance_at((const void *)(c->object->view.bias + at));
    const struct analysis_unit *to = analysis_unit_at(c->s, target);

    if (!is_removed(c, to) || is_removed(c, analysis_unit_at(c->s, at)))
        return 0;
    return refuse(c->ctx, &c->object->public, c->object->view.bias + to->start, EBUSY,
                  "a function that stays leads to it");
}

static int check_listed(const struct closing *c)
{
    const struct analysis *s = c->s;
    int error = 0;

    for (size_t i = 0; i < s->n_branches && !error; i++)
        error = check_displacement(c, s->branches[i].address, 0);
    for (size_t i = 0; i < s->n_references && !error; i++)
        if (s->references[i].kind == ANALYSIS_TO_CODE)
            error = check_displacement(c, s->references[i].address, s->references[i].rest);
    return error;
}

static int check_joined(const struct closing *c)
{
    for (size_t i = 0; i + 1 < c->s->n_units; i++) {
        const struct analysis_unit *unit = &c->s->units[i], *to = is_removed(c, unit) ? unit : unit + 1;

        if (unit->flags & ANALYSIS_JOINED && is_removed(c, unit) != is_removed(c, unit + 1))
            return refuse(c->ctx, &c->object->public, c->object->view.bias + to->start, EBUSY,
                          "control goes between it and a function beside it that stays");
    }
    return 0;
}

/* Checks the targets that passes want. */
static int check_wanted(const struct mvld_context *ctx)
{
    const struct rimf_retargets *all = &ctx->image->retargets;

    for (size_t i = 0; i < all->n; i++)
        if (rimf_retarget_counts(ctx->image, &all->list[i]) && rimf_is_removed(ctx->image, all->list[i].target))
            return rimf_fail(ctx->image, EBUSY, "%s: the function at %lx is not removed: the pass '%s' leads there",
                             ctx->pass, (unsigned long)all->list[i].target, all->list[i].ctx->pass);
    return 0;
}

int rimf_removals_check(struct mvld_image *image, const struct mvld_context *ctx)
{
    const struct rimf_removals *all = &image->removals;
    struct closing c = {.ctx = ctx};
    int error = 0;

    for (size_t i = 0; i < all->n && !error; i++) {
        const char *why;

        if (all->list[i].ctx != ctx || all->list[i].object == c.object)
            continue;
        c.object = all->list[i].object;
        c.s = rimf_analysis_branches(image, c.object, &why);
        error = !c.s ? refuse(ctx, &c.object->public, all->list[i].start, ENODATA, why) : check_listed(&c);
        error = error ? error : check_joined(&c);
    }
    return error ? error : all->n ? check_wanted(ctx) : 0;
}

void rimf_removals_forget(struct mvld_image *image, const struct mvld_context *ctx)
{
    struct rimf_removals *all = &image->removals;
    size_t n = all->n;

    all->n = 0;
    rimf_address_set_clear(&all->entries, &image->heap);
    for (size_t i = 0; i < n; i++) /* without memory they are still removed */
        if (all->list[i].ctx != ctx || all->list[i].is_made) {
            all->list[all->n++] = all->list[i];
            (void)rimf_address_set_add(&all->entries, &image->heap, all->list[i].start);
        }
}

/* ---- making ------------------------------------------------------------------------------------------- */

#define CALL 5u
#define ENTRY (CALL + 2u)  /* behind an endbr64 */
#define SENTENCE_CODE 25u
#define SENTENCE_MAX 400u

/* At `place`. */
static size_t write_sentence(uint8_t *to, const struct rimf_removal *r)
{
    static const uint8_t code[SENTENCE_CODE] = {
        0xb8, 1, 0, 0, 0,                /* mov $1, %eax       write */
        0xbf, 2, 0, 0, 0,                /* mov $2, %edi */
        0x48, 0x8d, 0x35, 8, 0, 0, 0,    /* lea 8(%rip), %rsi  behind the ret */
        0xba, 0, 0, 0, 0,                /* mov $length, %edx */
        0x0f, 0x05, 0xc3,                /* syscall; ret */
    };
    char *text = (char *)to + SENTENCE_CODE;
    uint32_t length;

    memcpy(to, code, sizeof code);
    rimf_format(text, SENTENCE_MAX, "mvld: %s: a function was called that the pass '%s' removed\n",
                r->object->public.name, r->ctx->pass);
    length = (uint32_t)rimf_strlen(text);
    memcpy(to + 18, &length, sizeof length);
    return SENTENCE_CODE + length;
}

/* The address of the sentence, in the first function of the object and the pass that is large enough; or 0. */
static uintptr_t sentence_of(const struct rimf_removals *all, const struct rimf_removal *of)
{
    uint8_t bytes[SENTENCE_CODE + SENTENCE_MAX];
    size_t size = write_sentence(bytes, of);

    for (size_t i = 0; i < all->n; i++) {
        const struct rimf_removal *r = &all->list[i];
        size_t first = ENTRY + endbr64_size((const uint8_t *)r->start, r->size);

        if (r->object == of->object && r->ctx == of->ctx && r->size >= first + size)
            return r->start + first;
    }
    return 0;
}

/* Writes the new content of the function that runs at `at`. */
static void write_traps(uint8_t *to, const struct rimf_removal *r, uintptr_t at, uintptr_t sentence)
{
    size_t head = endbr64_size((const uint8_t *)r->start, r->size);
    uint8_t call[CALL];

    memset(to, 0xcc, r->size);
    if (r->size < head + ENTRY || !sentence || displace_jump(call, at + head, sentence))
        return;
    memcpy(to, (const void *)r->start, head); /* endbr64 */
    call[0] = 0xe8;
    memcpy(to + head, call, CALL);
    memcpy(to + head + CALL, (const uint8_t[]){0x0f, 0x0b}, 2); /* ud2 */
    if (sentence - r->start < r->size && at == r->start)
        write_sentence(to + (sentence - r->start), r);
}

static void list_removal(struct changes *list, const struct rimf_removal *r, uintptr_t sentence)
{
    uint8_t *bytes = rimf_heap_alloc(&list->image->heap, r->size + SENTENCE_MAX); /* the end of a sentence's text */
    uintptr_t moved = rimf_moved_to(list->image, r->start);

    if (!bytes) {
        list->error = -ENOMEM;
        return;
    }
    write_traps(bytes, r, r->start, sentence);
    changes_add(list, r->start, (const void *)r->start, bytes, r->size);
    if (moved) {
        write_traps(bytes, r, moved, sentence);
        changes_add(list, moved, (const void *)moved, bytes, r->size);
    }
    rimf_heap_release(&list->image->heap, bytes);
}

/* They are made: those of one object, and of one pass, in a row. */
static void note_made(const struct mvld_context *ctx)
{
    struct rimf_removals *all = &ctx->image->removals;
    size_t n = 0, bytes = 0;

    for (size_t i = 0; i < all->n; i++) {
        struct rimf_removal *r = &all->list[i];

        if (r->ctx != ctx || r->is_made)
            continue;
        r->is_made = 1;
        n++;
        bytes += r->size;
        if (i + 1 < all->n && all->list[i + 1].object == r->object && all->list[i + 1].ctx == ctx)
            continue;
        r->object->code.patched |= OBJECT_REMOVED;
        r->object->code.patched_by = ctx;
        rimf_log(ctx->image->log, MVLD_LOG_PASSES, "%s: %s: %zu functions are removed, %zu bytes", ctx->pass,
                 r->object->public.name, n, bytes);
        n = bytes = 0;
    }
}

/* All of a pass, or none. */
static int emit(struct mvld_image *image, const struct mvld_context *ctx)
{
    const struct rimf_removals *all = &image->removals;
    struct changes list = {.image = image, .unentered = 1};
    const struct rimf_object *object = NULL;
    uintptr_t sentence = 0;
    int error;

    for (size_t i = 0; i < all->n; i++) {
        const struct rimf_removal *r = &all->list[i];

        if (r->ctx != ctx || r->is_made)
            continue;
        if (r->object != object)
            sentence = sentence_of(all, r);
        object = r->object;
        list_removal(&list, r, sentence);
    }
    error = changes_all(&list);
    changes_end(&list);
    if (error)
        return rimf_fail(image, -error, "%s: no function is removed: %s", ctx->pass, image->error);
    note_made(ctx);
    return 0;
}

const struct mvld_context *rimf_removals_emit(struct mvld_image *image, int *error)
{
    const struct rimf_removals *all = &image->removals;

    *error = 0;
    for (size_t i = 0; i < all->n; i++) {
        if (!all->list[i].is_made && all->list[i].ctx != image->unfinished)
            *error = emit(image, all->list[i].ctx);
        if (*error)
            return all->list[i].ctx;
    }
    return NULL;
}
