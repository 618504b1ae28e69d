/* SPDX-License-Identifier: MIT
 *
 * rimf/image/edits.c: the targets that passes want for calls through slots, one pass after the other.
 *
 *     found      where the host loader sends a call through the slot
 *     wanted     the rule of the first pass says where that call shall lead instead; the next one is told so,
 *                and may say again
 *     emitted    behind the last pass the calls become code (realise/realise.c), where they stand or where
 *                they moved to
 *
 * So calls in originals of moved code, and code that is not executed, keep going through the PLT.  Writing
 * to a page makes a private copy, at the cost of a page fault and some microseconds, and most pages with
 * calls are not written otherwise.  A snapshot holds the changes of originals: while one is made, they are
 * changed first.
 *
 * A rule is called once for each slot, when the target matters.
 */
#include "rimf/image/edits.h"

#include "rimf/base/base.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

const char edit_far[] = "the target is farther than 2 GiB";
const char edit_other[] = "the code is not what the analysis says";

/* ---- declaring ------------------------------------------------------------------------ */

static struct rimf_edit_report *report_of(struct mvld_image *image, const struct mvld_context *ctx)
{
    struct rimf_edit_report **end = &image->reports;

    while (*end && (*end)->ctx != ctx)
        end = &(*end)->next;
    if (!*end)
        *end = rimf_heap_alloc(&image->heap, sizeof **end);
    if (*end)
        (*end)->ctx = ctx;
    return *end;
}

/* Adds behind the edits of earlier passes. */
static int add(struct rimf_object *object, const struct rimf_edit *made)
{
    struct mvld_image *image = made->ctx->image;
    struct rimf_edit **end = &object->edit;
    size_t n = 0;

    for (; *end; end = &(*end)->next, n++)
        if ((*end)->ctx == made->ctx)
            return rimf_fail(image, EEXIST, "%s: %s: the pass has a rule for its calls", made->ctx->pass,
                             object->public.name);
    *end = n < EDITS_MOST && made->report ? rimf_heap_alloc(&image->heap, sizeof **end) : NULL;
    if (!*end)
        return rimf_fail(image, ENOMEM, "%s: out of memory", made->ctx->pass);
    **end = *made;
    return 0;
}

int rimf_calls_retarget(const struct mvld_context *ctx, const struct mvld_object *public,
                        mvld_calls_rule *rule)
{
    struct rimf_object *object = (struct rimf_object *)rimf_object_of(public);
    struct mvld_image *image = rimf_context_image(ctx);
    const char *watcher = rimf_auditor(image);
    int error = rimf_only_in(image, RIMF_STAGE_RUN, ctx ? ctx->pass : "");

    if (error)
        return error;
    if (!rimf_is_mapped(public) || !rule)
        return rimf_fail(image, EINVAL, "%s: a rule for calls is wrong", ctx->pass);
    if (watcher) {
        rimf_log(image->log, MVLD_LOG_PASSES, "%s: %s: no call is changed: %s", ctx->pass,
                 public->name, watcher);
        return 0;
    }
    return add(object, &(struct rimf_edit){.ctx = ctx, .rule = rule, .report = report_of(image, ctx)});
}

/* ---- where a call ends ----------------------------------------------------------------- */

/* In an executable at a fixed address, its own PLT entries stand for functions whose address it takes, and
 * the host loader binds other objects' slots to them.  Such an entry jumps through a slot for the same
 * symbol, which is followed.  (A function that only jumps to another one looks the same, but that one has
 * another name.) */
static void note(struct bound *b, const struct mvld_slot *slot, const struct mvld_object *holder)
{
    b->shown[b->n++] = slot->shown;
    b->binding.target = slot->target;
    b->binding.found = slot->found;
    b->binding.holder = holder;
    b->binding.flags = (b->binding.flags & slot->flags & MVLD_SLOT_RELRO) |
                       ((b->binding.flags | slot->flags) & MVLD_SLOT_LAZY);
}

/* NULL, or why the target of a call through the slot is not certain (static). */
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
    if (rimf_is_removed(ctx->image, target))
        return "a pass removes the target";
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

/* What those before want is not wanted any more. */
static void take_back(struct mvld_image *image, struct mvld_binding *bound, struct rimf_wanted *wanted, const char *why)
{
    *wanted = (struct rimf_wanted){.why = why ? why : "a pass wants it through its slot"};
    bound->target = bound->found;
    bound->holder = rimf_object_find(image, bound->found);
}

/* What `edit` makes of what those before it want; `bound` is told to it with that. */
static void ask(const struct rimf_edit *edit, const struct rimf_object *object, struct mvld_binding *bound,
                uint32_t bit, struct rimf_wanted *wanted)
{
    struct mvld_image *image = edit->ctx->image;
    const struct mvld_context *running = image->running;
    const struct mvld_object *before = bound->holder;
    uintptr_t target = 0;
    const char *why, *unfit;

    image->running = edit->ctx;
    why = edit->rule(edit->ctx, &object->public, bound, &target);
    image->running = running;
    if (target == bound->slot) {
        take_back(image, bound, wanted, why);
        return;
    }
    unfit = target || why ? NULL : "its rule says neither a target nor a reason";
    if (target) {
        bound->holder = target == bound->target ? before : rimf_object_find(image, target);
        unfit = rimf_unfit_target(edit->ctx, bound->holder, target);
        if (!unfit && target != bound->found)
            rimf_object_note_bound(bound->holder);
    }
    if (why || unfit)
        wanted->why = unfit ? unfit : why;
    if (!target || unfit) {
        bound->holder = before;
        return;
    }
    wanted->moved = bound->target = target;
    wanted->by_moved |= bit;
    if (why)
        return;
    wanted->target = target;
    wanted->by |= bit;
}

struct rimf_wanted rimf_edit_wanted(struct mvld_image *image, const struct rimf_object *object, uintptr_t slot)
{
    struct bound bound;
    struct rimf_wanted wanted = {.why = bind_slot(image, object, slot, &bound)};
    uint32_t bit = 1;

    if (wanted.why)
        return wanted;
    for (struct rimf_edit *edit = rimf_edits_of(image, object); edit; edit = rimf_edit_behind(image, edit), bit <<= 1)
        ask(edit, object, &bound.binding, bit, &wanted);
    for (size_t i = 0; image->watch && wanted.moved && i < bound.n; i++)
        if (rimf_depends(image, &object->public, bound.shown[i]))
            return (struct rimf_wanted){.why = "memory is short"};
    return wanted;
}

struct mvld_binding rimf_call_wanted(struct mvld_image *image, const struct rimf_object *object, uintptr_t slot)
{
    struct rimf_wanted wanted;
    struct bound bound;

    if (bind_slot(image, object, slot, &bound))
        return (struct mvld_binding){.slot = slot};
    wanted = rimf_edit_wanted(image, object, slot);
    if (wanted.moved)
        bound.binding.target = wanted.target ? wanted.target : wanted.moved;
    return bound.binding;
}

int rimf_edit_led(struct mvld_image *image, const struct rimf_object *object, uintptr_t slot, uintptr_t names)
{
    struct bound bound;
    struct rimf_wanted wanted = {.target = 0};

    if (bind_slot(image, object, slot, &bound) || bound.binding.target == names || bound.binding.found == names)
        return names && (bound.binding.target == names || bound.binding.found == names);
    for (const struct rimf_edit *edit = object->edit; edit; edit = edit->next)
        if (!edit->report)
            ask(edit, object, &bound.binding, 0, &wanted);
    return names == wanted.target || names == wanted.moved;
}

int rimf_edit_waits(const struct mvld_image *image, const struct rimf_object *object)
{
    const struct rimf_edit *edit = rimf_edits_of(image, object);

    while (edit && !edit->report)
        edit = rimf_edit_behind(image, edit);
    return edit != NULL;
}

/* ---- counting ---------------------------------------------------------------------------- */

void rimf_edit_left(struct rimf_edit *edit, const char *why, size_t n)
{
    struct rimf_edit_report *report = edit->report;
    size_t i = 0;

    if (!n || !report)
        return;
    while (i < report->n_left && report->left[i].why != why && !rimf_streq(report->left[i].why, why))
        i++;
    if (i == EDIT_REASONS) {
        i--;
        report->left[i].why = "for several other reasons";
    } else if (i == report->n_left) {
        report->left[report->n_left++].why = why;
    }
    report->left[i].n += n;
}

void rimf_image_forget_edits(struct mvld_image *image, const struct mvld_context *ctx)
{
    const struct rimf_table *table = rimf_table_enter(image);

    rimf_retargets_forget(image, ctx, 0);
    for (size_t i = 0; i < table->n_objects; i++) {
        rimf_domain_take_back(table->objects[i], ctx);
        for (struct rimf_edit **at = &table->objects[i]->edit, *edit; (edit = *at);) {
            if (edit->ctx != ctx || !edit->report) {
                at = &edit->next;
                continue;
            }
            *at = edit->next;
            rimf_heap_release(&image->heap, edit);
        }
    }
    rimf_table_leave(image);
    for (struct rimf_edit_report **at = &image->reports, *report; (report = *at);) {
        if (report->ctx != ctx) {
            at = &report->next;
            continue;
        }
        *at = report->next;
        rimf_heap_release(&image->heap, report);
    }
}
