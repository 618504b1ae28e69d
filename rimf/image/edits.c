/* SPDX-License-Identifier: MIT
 *
 * rimf/image/edits.c: what passes declare of calls, verified, and where it is realised.
 *
 *     calls_retarget      a rule for the calls of an object; nothing is changed
 *     the pass ends       they are changed where they stand (realise/realise.c), unless a pass
 *                         behind it moves code: then
 *     code moves          it asks where its calls lead (moved/calls.c); what did not move is
 *                         changed where it stands
 *
 * So the calls of code that moved stay in the original what they were: through the PLT, like all of it
 * that moved code leaves alone.  A page of it that is written is a private copy of it, a
 * page fault and some microseconds, and of most pages with calls nothing else is written.  A
 * snapshot holds what became of originals: while one is made, they are changed first.
 *
 * A rule is asked once for each slot, when it matters where that leads.  Where calls are direct in
 * a file already (store/manifest.h) it is not asked at all, if the slots that they went through hold
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
    struct mvld_image *image = rimf_context_image(ctx);
    const char *watcher = rimf_auditor(image);
    int error = rimf_only_in(image, RIMF_STAGE_RUN, ctx ? ctx->pass : "");

    if (error)
        return error;
    if (!rimf_is_mapped(public) || !rule || flags & ~MVLD_CALLS_SINGLES)
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

/* ---- where a call ends ----------------------------------------------------------------- */

/* An executable at a fixed address has its own PLT entries stand for functions whose address it
 * takes, and the host loader binds other objects' slots to them: such an entry jumps through a
 * slot for the same symbol, and the way goes on there.  (A function that only jumps to another
 * one looks alike, but that one has another name.) */
static void note(struct bound *b, const struct mvld_slot *slot, const struct mvld_object *holder)
{
    b->shown[b->n++] = slot->shown;
    b->binding.target = slot->target;
    b->binding.holder = holder;
    b->binding.flags = (b->binding.flags & slot->flags & MVLD_SLOT_RELRO) |
                       ((b->binding.flags | slot->flags) & MVLD_SLOT_LAZY);
}

/* NULL, or why it is not certain where a call through the slot ends (static). */
static const char *bind_slot(struct mvld_image *image, const struct rimf_object *object,
                             uintptr_t address, struct bound *out)
{
    const struct mvld_object *at = &object->public, *holder;
    const char *first = NULL, *name;
    struct mvld_slot slot;

    *out = (struct bound){.binding = {.slot = address, .flags = MVLD_SLOT_RELRO}};
    if (rimf_slot_target(image, at, address, &slot, &holder))
        return "the host loader fills no such slot";
    while (!slot.why && out->n < EDIT_STEPS) {
        note(out, &slot, holder);
        if (!holder || !(holder->flags & MVLD_OBJECT_MAIN))
            return NULL;
        first = first ? first : rimf_slot_name(image, at, address);
        at = holder;
        address = rimf_plt_slot(at, slot.target);
        name = address ? rimf_slot_name(image, at, address) : NULL;
        if (!first || !name || !rimf_streq(name, first) ||
            rimf_slot_target(image, at, address, &slot, &holder))
            return NULL;
    }
    return slot.why ? slot.why : "PLT entries lead to each other";
}

uintptr_t rimf_slot_end(struct mvld_image *image, const struct rimf_object *object, uintptr_t slot)
{
    struct bound bound;

    return bind_slot(image, object, slot, &bound) ? 0 : bound.binding.target;
}

/* ---- verifying ------------------------------------------------------------------------- */

const char *rimf_unfit_target(const struct mvld_context *ctx, const struct mvld_object *holder,
                              uintptr_t target)
{
    if (rimf_new_section_holds(ctx, MVLD_SECTION_CODE, target))
        return NULL;
    if (!holder || !elf_holds(&rimf_object_of(holder)->view, target, 1, PROT_EXEC))
        return "the target is not in an object's code";
    if (holder->flags & MVLD_OBJECT_VDSO)
        return "the target is in the vDSO";
    if (holder->flags & MVLD_OBJECT_LOADER)
        return "the target is in the host loader";
    if (holder->flags & MVLD_OBJECT_UNPLACED)
        return "the target lies elsewhere each time, and is not for a snapshot";
    return NULL;
}

const char *rimf_edit_lead(struct mvld_image *image, const struct rimf_object *object,
                           uintptr_t slot, uintptr_t *target)
{
    const struct rimf_edit *edit = object->edit;
    const struct mvld_context *running = image->running;
    struct bound bound;
    const char *why = bind_slot(image, object, slot, &bound), *unfit;

    *target = 0;
    image->running = edit->ctx;
    if (!why)
        why = edit->rule(edit->ctx, &object->public, &bound.binding, target);
    image->running = running;
    if (why && !*target)
        return why;
    unfit = rimf_unfit_target(edit->ctx, *target == bound.binding.target ? bound.binding.holder
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

void rimf_image_forget_edits(struct mvld_image *image, const struct mvld_context *ctx)
{
    const struct rimf_table *table = rimf_table_enter(image);

    rimf_retargets_forget(image);
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
