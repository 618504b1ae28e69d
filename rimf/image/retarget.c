/* SPDX-License-Identifier: MIT
 *
 * rimf/image/retarget.c: single references that passes change (reference_retarget of mvld/pass.h): declared
 * here, made after the last pass by realise/retarget.c.
 *
 * Each has two sides: the content of memory is the found one, and the last element of the list for its
 * place is the wanted one.  A later pass gets the latter, and may change it; if that pass fails, the
 * earlier one is wanted again.
 *
 * Everything possible is verified when it is declared, so that a pass can skip what cannot be done:
 *
 *     call, lea    its displacement is in the analysis of the object, its bytes are such an instruction,
 *                  and it leads to the beginning of a function
 *     slot         the host loader fills it, and it is certain where it leads
 *     word         a relocation fills it, and it holds the address of the beginning of a function
 *
 * Words must be in objects that have not run any code: code that has read one keeps the value.
 */
#include "rimf/image/edits.h"

#include "rimf/base/base.h"
#include "rimf/image/original.h"
#include "rimf/x86/decode.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

static const char *const names[] = {
    "reference", "call through the PLT", "jump through the PLT", "jump through the PLT",
    "call through a slot", "jump through a slot", "call", "jump", "lea", "slot", "word"};

struct asked {
    struct mvld_image *image;
    const struct mvld_context *ctx;
    const struct mvld_reference *reference;
    struct rimf_object *object;
};

static int refuse(const struct asked *a, int error, const char *why)
{
    uintptr_t site = a->reference->site;

    return rimf_fail(a->image, error, "%s: %s: the %s at %lx: %s", a->ctx->pass,
                     a->object ? a->object->public.name : "nowhere",
                     names[a->reference->kind < RIMF_COUNT(names) ? a->reference->kind : 0],
                     (unsigned long)(site - (a->object ? a->object->view.bias : 0)), why);
}

/* ---- what it is ---------------------------------------------------------------------------- */

/* NULL if a function begins there, by its object's analysis.  Otherwise why that is not known: a static sentence, or
 * the image's last one. */
static const char *no_function(struct mvld_image *image, uintptr_t address)
{
    struct rimf_object *holder =
        (struct rimf_object *)rimf_object_of(rimf_object_find(image, address));
    const char *why = NULL;
    const struct analysis *s = holder ? rimf_analysis_whole(image, holder, &why) : NULL;
    const struct analysis_unit *unit =
        s ? analysis_unit_at(s, (uint32_t)(address - holder->view.bias)) : NULL;

    if (unit && unit->start == address - holder->view.bias)
        return NULL;
    if (!why)
        return "it is not proven to lead to a function";
    rimf_format(image->error, sizeof image->error, "the analysis of %s, where it leads: %s", holder->public.name, why);
    return image->error;
}

/* The host loader calls what the word leads to, as a constructor or a destructor: of an array between two tags. */
static int is_called_by_loader(const struct elf_view *view, uintptr_t word)
{
    uintptr_t start[2] = {0, 0}, size[2] = {0, 0};

    for (size_t i = 0; i < view->n_dynamic; i++)
        switch (view->dynamic[i].d_tag) {
        case DT_INIT_ARRAY: start[0] = view->bias + view->dynamic[i].d_un.d_ptr; break;
        case DT_INIT_ARRAYSZ: size[0] = view->dynamic[i].d_un.d_val; break;
        case DT_FINI_ARRAY: start[1] = view->bias + view->dynamic[i].d_un.d_ptr; break;
        case DT_FINI_ARRAYSZ: size[1] = view->dynamic[i].d_un.d_val; break;
        }
    return word - start[0] < size[0] || word - start[1] < size[1];
}

static int is_listed(const struct analysis *s, uint32_t at, enum mvld_reference_kind kind)
{
    size_t i = ANALYSIS_FROM(s, references, at);

    if (i < s->n_references && s->references[i].address == at) {
        uint8_t of = s->references[i].kind;

        return kind == MVLD_REFERENCE_LEA
                   ? (of == ANALYSIS_TO_CODE || of == ANALYSIS_TO_ORIGINAL) && !s->references[i].rest
                   : of == ANALYSIS_BRANCH_ORIGINAL;
    }
    i = ANALYSIS_FROM(s, branches, at);
    return kind == MVLD_REFERENCE_CALL && i < s->n_branches && s->branches[i].address == at;
}

/* The analysis that lists references to code, of an object whose code was not moved; or NULL, and *error. */
static const struct analysis *unmoved_analysis(const struct asked *a, int *error)
{
    const char *why;
    const struct analysis *s = rimf_analysis_branches(a->image, a->object, &why);

    if (!s)
        *error = refuse(a, ENODATA, why);
    else if (rimf_has_moved(a->image, a->object))
        *error = refuse(a, ENOTSUP, "its code was moved before");
    return s && !rimf_has_moved(a->image, a->object) ? s : NULL;
}

/* Whether the reference has another target now, in memory or by an earlier pass.  Declaring it twice in one
 * pass is a different error. */
static int is_stale(const struct asked *a, uintptr_t at, uintptr_t found)
{
    const struct rimf_retarget *wanted = rimf_retarget_at(a->image, at);
    uintptr_t now = wanted && wanted->ctx != a->ctx ? wanted->target : found;

    return a->reference->target != now;
}

const char *rimf_removed_by(struct mvld_image *image, uintptr_t entry)
{
    const struct rimf_removals *all = &image->removals;
    size_t i = 0;

    if (!rimf_is_removed(image, entry))
        return NULL;
    while (i + 1 < all->n && all->list[i].start != entry)
        i++;
    rimf_format(image->error, sizeof image->error, "the pass '%s' removes its function", all->list[i].ctx->pass);
    return image->error;
}

static int find_operand(const struct asked *a, struct rimf_retarget *out)
{
    enum mvld_reference_kind kind = a->reference->kind;
    int error = 0;
    const struct analysis *s = unmoved_analysis(a, &error);
    const struct analysis_unit *unit;
    const char *why;
    uintptr_t site = a->reference->site, at = site + (kind == MVLD_REFERENCE_LEA ? 2 : 1);
    int32_t distance;

    if (!s)
        return error;
    if (!elf_holds(&a->object->view, site - 1, 7, PROT_READ | PROT_EXEC) ||
        at - a->object->view.bias > UINT32_MAX ||
        !is_listed(s, (uint32_t)(at - a->object->view.bias), kind) ||
        rimf_operand_kind((const uint8_t *)at) != kind)
        return refuse(a, ENOENT, "no such reference is proven");
    unit = analysis_unit_at(s, (uint32_t)(at - a->object->view.bias));
    why = unit ? rimf_removed_by(a->image, a->object->view.bias + unit->start) : NULL;
    if (why)
        return refuse(a, EEXIST, why);
    out->at = at;
    out->next = at + sizeof distance;
    memcpy(&distance, (const void *)at, sizeof distance);
    out->old = (uint32_t)distance;
    out->found = out->next + (uintptr_t)(intptr_t)distance;
    if (is_stale(a, at, out->found))
        return refuse(a, ESTALE, "it leads elsewhere by now");
    why = no_function(a->image, out->found);
    if (why)
        return refuse(a, ENOENT, why);
    if (rimf_depends(a->image, &a->object->public, 0))
        return refuse(a, ENOTSUP, "its object lies elsewhere each time, and no snapshot holds it");
    return 0;
}

static int take_word(const struct asked *a, struct rimf_retarget *out)
{
    const char *watcher = rimf_auditor(a->image);

    if (watcher)
        return refuse(a, EBUSY, watcher);
    if (a->image->watch)
        return refuse(a, ENOTSUP, "no snapshot holds words that passes change");
    if (!rimf_object_unentered(a->image, a->object))
        return refuse(a, EBUSY, "code of the object has run, and may have read it");
    out->at = a->reference->site;
    out->old = *(const uint64_t *)out->at;
    return 0;
}

static int find_slot(const struct asked *a, struct rimf_retarget *out)
{
    const struct mvld_object *holder;
    struct mvld_slot slot;

    if (rimf_slot_target(a->image, &a->object->public, a->reference->site, &slot, &holder))
        return refuse(a, ENOENT, "the host loader fills no such slot");
    if (slot.why)
        return refuse(a, ENOENT, slot.why);
    out->found = slot.found;
    if (is_stale(a, a->reference->site, slot.found))
        return refuse(a, ESTALE, "it leads elsewhere by now");
    return take_word(a, out);
}

static int find_word(const struct asked *a, struct rimf_retarget *out)
{
    uintptr_t site = a->reference->site;
    const char *why;

    if (site % sizeof site || !elf_holds(&a->object->view, site, sizeof site, PROT_READ | PROT_WRITE) ||
        !rimf_word_is_pointer(a->image, a->object, site))
        return refuse(a, ENOENT, "no relocation makes it an address");
    out->found = rimf_unmoved(a->image, *(const uintptr_t *)site);
    if (is_stale(a, site, out->found))
        return refuse(a, ESTALE, "it leads elsewhere by now");
    why = is_called_by_loader(&a->object->view, site) ? NULL : no_function(a->image, out->found);
    if (why)
        return refuse(a, ENOENT, why);
    return take_word(a, out);
}

static int find_reference(const struct asked *a, struct rimf_retarget *out)
{
    switch (a->reference->kind) {
    case MVLD_REFERENCE_CALL:
    case MVLD_REFERENCE_LEA: return find_operand(a, out);
    case MVLD_REFERENCE_SLOT: return find_slot(a, out);
    case MVLD_REFERENCE_WORD: return find_word(a, out);
    case MVLD_REFERENCE_JUMP: return refuse(a, ENOTSUP, "a jump may lead on inside of a function");
    case MVLD_REFERENCE_CALL_PLT:
    case MVLD_REFERENCE_JUMP_PLT:
    case MVLD_REFERENCE_JCC_PLT:
    case MVLD_REFERENCE_CALL_SLOT:
    case MVLD_REFERENCE_JUMP_SLOT: return refuse(a, ENOTSUP, "calls_retarget leads it elsewhere, by its slot");
    }
    return refuse(a, EINVAL, "of no kind");
}

/* ---- declaring ------------------------------------------------------------------------------- */

/* Records the last element of the list. */
static int note(struct mvld_image *image)
{
    struct rimf_retargets *all = &image->retargets;
    uintptr_t at = all->list[all->n - 1].at;
    int error = rimf_address_set_add(&all->places, &image->heap, at);

    if (error == -ENOMEM)
        return error;
    *rimf_address_set_find(&all->places, at) = (uint32_t)all->n;
    return 0;
}

static int add(const struct asked *a, const struct rimf_retarget *made)
{
    struct rimf_retargets *all = &a->image->retargets;
    const struct rimf_retarget *before = rimf_retarget_at(a->image, made->at);

    if (!all->n || all->list[all->n - 1].ctx != a->ctx)
        all->own = all->n;
    if (all->n - all->own == MVLD_RETARGETS_MAX)
        return refuse(a, E2BIG, "the pass leads too many references elsewhere");
    if (before && before->ctx == a->ctx)
        return refuse(a, EEXIST, "the pass has led it elsewhere already");
    if (!RIMF_ONE_MORE(&a->image->heap, all->list, all->n, all->room, 64))
        return refuse(a, ENOMEM, "out of memory");
    all->list[all->n++] = *made;
    if (!note(a->image))
        return 0;
    all->n--;
    return refuse(a, ENOMEM, "out of memory");
}

const struct rimf_retarget *rimf_retarget_at(const struct mvld_image *image, uintptr_t at)
{
    const uint32_t *number = rimf_address_set_find(&image->retargets.places, at);

    return number ? &image->retargets.list[*number - 1] : NULL;
}

int rimf_retarget_counts(const struct mvld_image *image, const struct rimf_retarget *r)
{
    return rimf_retarget_at(image, r->at) == r && r->target != r->found;
}

int rimf_reference_retarget(const struct mvld_context *ctx, const struct mvld_reference *reference,
                            uintptr_t target)
{
    struct mvld_image *image = rimf_context_image(ctx);
    const struct mvld_object *public = reference ? rimf_object_find(image, reference->site) : NULL;
    struct asked a = {image, ctx, reference, (struct rimf_object *)rimf_object_of(public)};
    struct rimf_retarget made = {.ctx = ctx, .object = a.object, .target = target};
    const char *unfit;
    int error = rimf_only_in(image, RIMF_STAGE_RUN, ctx ? ctx->pass : "");

    if (error)
        return error;
    if (!reference)
        return rimf_fail(image, EINVAL, "%s: no reference is to lead elsewhere", ctx->pass);
    if (!public)
        return refuse(&a, EINVAL, "no object lies there");
    if (public->why)
        return refuse(&a, ENOTSUP, public->why);
    error = find_reference(&a, &made);
    if (error)
        return error;
    unfit = target == made.found ? NULL : rimf_unfit_target(ctx, rimf_object_find(image, target), target);
    if (unfit)
        return refuse(&a, EFAULT, unfit);
    if (made.next && (intptr_t)(int32_t)(target - made.next) != (intptr_t)(target - made.next))
        return refuse(&a, ERANGE, edit_far);
    if (target != made.found && !rimf_object_find(image, target)) /* new code, which may jump on to what was found */
        rimf_object_note_bound(rimf_object_find(image, made.found));
    return add(&a, &made);
}

int rimf_retarget_leads_into(const struct mvld_image *image, uintptr_t at, size_t size)
{
    const struct rimf_retargets *all = &image->retargets;
    size_t i = 0;

    while (i < all->n && !(all->list[i].target - at < size && rimf_retarget_counts(image, &all->list[i])))
        i++;
    return i < all->n;
}

void rimf_retargets_forget(struct mvld_image *image, const struct mvld_context *ctx, int others)
{
    struct rimf_retargets *all = &image->retargets;
    size_t n = all->n;

    rimf_address_set_clear(&all->places, &image->heap);
    all->n = all->own = 0;
    for (size_t i = 0; i < n; i++)
        if ((all->list[i].ctx == ctx) == others) {
            all->list[all->n++] = all->list[i];
            if (note(image))
                break; /* these are not wanted any more */
        }
    if (all->n)
        return;
    rimf_heap_release(&image->heap, all->list);
    *all = (struct rimf_retargets){.n = 0};
}
