/* SPDX-License-Identifier: MIT
 *
 * rimf/image/edits.c: what passes declare of calls, verified, and where it is realised.
 *
 *     calls_retarget      a rule for the calls of an object; nothing is changed
 *     the pass ends       they are changed where they stand (realise/changes.c), unless a pass
 *                         behind it moves code: then
 *     copies_commit       moved code asks where its calls lead (moved/calls.c); what did not move is
 *                         changed where it stands
 *
 * So the calls of code that was moved stay at home what they were: through the PLT, like all of
 * home that the copies leave alone.  A page of home that is written is a private copy of it, a
 * page fault and some microseconds, and of most pages with calls nothing else is written.  A
 * frozen image holds what became of home: while one is made, home is changed first.
 *
 * A rule is asked once for each slot, when it matters where that leads.  Where calls are direct in
 * a file already (ready.h) it is not asked at all, if the slots that they went through hold
 * what they held for that file: the rule would say the same.
 */
#include "rimf/image/edits.h"

#include "rimf/base/base.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

const char edit_far[] = "the target is farther than 2 GiB";
const char edit_other[] = "the code is not what the analysis says";

/* ---- declaring ------------------------------------------------------------------------ */

static struct rimf_edit *edit_of(struct mvld_image *image, const struct mvld_context *ctx,
                                 mvld_calls_rule *rule, uint32_t flags)
{
    struct rimf_edit **end = &image->edits;

    for (; *end; end = &(*end)->next)
        if ((*end)->ctx == ctx && (*end)->rule == rule && (*end)->flags == flags)
            return *end;
    *end = rimf_heap_alloc(&image->heap, sizeof **end);
    if (*end)
        **end = (struct rimf_edit){.ctx = ctx, .rule = rule, .flags = flags};
    return *end;
}

int rimf_calls_retarget(const struct mvld_context *ctx, const struct mvld_object *public,
                        mvld_calls_rule *rule, uint32_t flags)
{
    struct rimf_object *object = (struct rimf_object *)rimf_object_of(public);
    const char *watcher = rimf_auditor(ctx->image);

    if (!rule || flags & ~MVLD_CALLS_SINGLES)
        return rimf_fail(ctx->image, EINVAL, "%s: a rule for calls is wrong", ctx->pass);
    if (object->edit)
        return rimf_fail(ctx->image, EEXIST, "%s: %s: the pass '%s' has a rule for its calls",
                         ctx->pass, public->name, object->edit->ctx->pass);
    if (watcher) {
        rimf_log(ctx->image->log, MVLD_LOG_PASSES, "%s: %s: no call is changed: %s", ctx->pass,
                 public->name, watcher);
        return 0;
    }
    object->edit = edit_of(ctx->image, ctx, rule, flags);
    return object->edit ? 0 : rimf_fail(ctx->image, ENOMEM, "%s: out of memory", ctx->pass);
}

/* ---- verifying ------------------------------------------------------------------------- */

/* Why no call must lead straight to `target`, in `holder`, or NULL. */
static const char *unfit_target(const struct mvld_image *image, const struct mvld_object *holder,
                                uintptr_t target)
{
    if (!holder && rimf_new_code_holds(image, target))
        return NULL;
    if (!holder || !elf_holds(&rimf_object_of(holder)->view, target, 1, PROT_EXEC))
        return "the target is not in an object's code";
    if (holder->flags & MVLD_OBJECT_VDSO)
        return "the target is in the vDSO";
    if (holder->flags & MVLD_OBJECT_LOADER)
        return "the target is in the host loader";
    if (holder->flags & MVLD_OBJECT_UNPLACED)
        return "the target lies elsewhere each time, and is not for a frozen image";
    return NULL;
}

const char *rimf_edit_lead(struct mvld_image *image, const struct rimf_object *object,
                           uintptr_t slot, uintptr_t *target)
{
    const struct rimf_edit *edit = object->edit;
    struct bound bound;
    const char *why = rimf_bind_slot(image, object, slot, &bound), *unfit;

    *target = 0;
    if (!why)
        why = edit->rule(edit->ctx, &object->public, &bound.binding, target);
    if (why && !*target)
        return why;
    unfit = unfit_target(image, *target == bound.binding.target ? bound.binding.holder
                                                                : rimf_object_find(image, *target),
                         *target);
    for (size_t i = 0; !unfit && i < bound.n; i++)
        if (rimf_depends(image, &object->public, bound.shown[i]))
            unfit = "memory is short";
    *target = unfit ? 0 : *target;
    return unfit ? unfit : why;
}

uintptr_t rimf_edit_end(struct mvld_image *image, const struct rimf_object *object, uintptr_t slot)
{
    uintptr_t target;

    if (!slot)
        return object->edit->flags & MVLD_CALLS_SINGLES && !rimf_depends(image, &object->public, 0);
    return rimf_edit_lead(image, object, slot, &target) ? 0 : target;
}

/* ---- counting ---------------------------------------------------------------------------- */

void rimf_edit_left(struct rimf_edit *edit, const char *why, size_t n)
{
    size_t i = 0;

    if (!n)
        return;
    while (i < edit->n_left && edit->left[i].why != why && !rimf_streq(edit->left[i].why, why))
        i++;
    if (i == EDIT_REASONS) {
        i--;
        edit->left[i].why = "for several other reasons";
    } else if (i == edit->n_left) {
        edit->left[edit->n_left++].why = why;
    }
    edit->left[i].n += n;
}

void rimf_edit_made(struct mvld_image *image, const struct rimf_object *object, uintptr_t slot,
                    size_t calls, size_t made, size_t far)
{
    struct rimf_edit *edit = object->edit;
    const char *why = NULL;
    uintptr_t target;

    if (!slot && !(edit->flags & MVLD_CALLS_SINGLES))
        return;
    edit->now.sites += calls;
    edit->now.made += made;
    rimf_edit_left(edit, edit_far, far);
    if (calls == made + far)
        return;
    if (slot)
        why = rimf_edit_lead(image, object, slot, &target);
    rimf_edit_left(edit, why ? why : edit_other, calls - made - far);
}

static void report(struct mvld_image *image, const struct rimf_edit *edit)
{
    const struct edit_counts *c = &edit->all;
    uint32_t category = MVLD_LOG_STATISTICS | MVLD_LOG_PASSES;

    rimf_log(image->log, category,
             "%s: %zu objects, %zu of %zu sites made direct, %zu pages (%zu KB) made private",
             edit->ctx->pass, c->objects, c->made, c->sites, c->pages,
             c->pages * (RIMF_PAGE / 1024));
    for (size_t i = 0; i < edit->n_left; i++)
        rimf_log(image->log, category, "%s: %zu sites left: %s", edit->ctx->pass, edit->left[i].n,
                 edit->left[i].why);
}

/* ---- realising ----------------------------------------------------------------------------- */

static void add_up(struct rimf_edit *edit)
{
    edit->all.objects++;
    edit->all.sites += edit->now.sites;
    edit->all.made += edit->now.made;
    edit->all.pages += edit->now.pages;
}

static int realise_in_place(struct mvld_image *image, struct rimf_object *object)
{
    struct rimf_edit *edit = object->edit;
    const char *why = object->public.why, *name = object->public.name;
    int error;

    if (!why && object->public.flags & MVLD_OBJECT_UNPLACED)
        why = "it lies elsewhere each time, and is not for a frozen image";
    if (why) {
        rimf_log(image->log, MVLD_LOG_PASSES, "%s: %s: left: %s", edit->ctx->pass, name, why);
        return 0;
    }
    edit->now = (struct edit_counts){0};
    error = rimf_calls_change(image, object, &why);
    if (error == -ENODATA) {
        rimf_log(image->log, MVLD_LOG_PASSES, "%s: no analysis of %s: %s: run mvld analyze",
                 edit->ctx->pass, name, why);
        return 0;
    }
    add_up(edit);
    rimf_log(image->log, MVLD_LOG_PASSES, "%s: %s: %zu of %zu sites made direct, %zu pages made private",
             edit->ctx->pass, name, edit->now.made, edit->now.sites, edit->now.pages);
    return error;
}

static void add_moved(struct mvld_image *image, const struct rimf_object *object)
{
    struct rimf_edit *edit = object->edit;

    edit->now = (struct edit_counts){.sites = object->calls_copied, .made = object->calls_made};
    add_up(edit);
    rimf_log(image->log, MVLD_LOG_PASSES, "%s: %s: %zu of %zu sites made direct, in its copy",
             edit->ctx->pass, object->public.name, edit->now.made, edit->now.sites);
}

/* After an error no other object would fare better. */
static int realise(struct mvld_image *image, struct rimf_edit *edit)
{
    const struct rimf_table *table = rimf_table_enter(image);
    int error = 0;

    for (size_t i = 0; i < table->n_objects; i++) {
        struct rimf_object *object = table->objects[i];

        int moved = image->calls_home && object->copy;

        if (object->edit != edit)
            continue;
        if (moved)
            add_moved(image, object);
        if (!error && (!moved || object->calls_at_home))
            error = realise_in_place(image, object);
        object->edit = NULL;
    }
    rimf_table_leave(image);
    report(image, edit);
    return error;
}

static int realise_all(struct mvld_image *image)
{
    int error = 0;

    while (image->edits) {
        struct rimf_edit *edit = image->edits;
        int failed = realise(image, edit);

        error = error ? error : failed;
        image->edits = edit->next;
        rimf_heap_release(&image->heap, edit);
    }
    return error;
}

void rimf_image_forget_edits(struct mvld_image *image, const struct mvld_context *ctx)
{
    const struct rimf_table *table = rimf_table_enter(image);

    for (size_t i = 0; i < table->n_objects; i++)
        if (table->objects[i]->edit && table->objects[i]->edit->ctx == ctx)
            table->objects[i]->edit = NULL;
    rimf_table_leave(image);
    for (struct rimf_edit **at = &image->edits; *at;) {
        struct rimf_edit *edit = *at;

        if (edit->ctx != ctx) {
            at = &edit->next;
            continue;
        }
        *at = edit->next;
        rimf_heap_release(&image->heap, edit);
    }
}

int rimf_image_realise(struct mvld_image *image, const struct mvld_context *ctx, int moves_later)
{
    int error = rimf_new_sections_seal(image);

    if (error)
        rimf_image_forget_edits(image, ctx); /* their new code is none */
    return error || (moves_later && !image->watch) ? error : realise_all(image);
}

void rimf_edits_finish(struct mvld_image *image)
{
    int error;

    image->calls_home = 1;
    error = realise_all(image);
    image->calls_home = 0;
    if (error)
        rimf_log(image->log, MVLD_LOG_WARNING, "mvld: calls are left as they are (error %d): %s", -error,
                 image->error);
}
