/* SPDX-License-Identifier: MIT
 *
 * leads.c: where calls lead, by the slot that they go through.
 *
 * Of an object's sites dozens go through the same slot.  It is read and its target judged for
 * the first of them; so is the entry of the PLT that they name, if they do.  The others find
 * the answer in a table, by the slot's own place: slots lie side by side, so a table that is
 * as long as the GOT has a place for each.  It begins with what fits a small program, whose
 * memory is counted in pages, and grows when two slots ask for the same place; at last a
 * newcomer takes the place of who had it.
 */
#include "direct.h"

#include "base.h"

#include <sys/mman.h> /* numbers only */

#define LEADS_AT_FIRST 128u
#define LEADS_MOST 16384u
#define STEPS 8 /* an entry may lead to another object's entry */

/* Why no call must lead straight to `target`, in `holder`, or NULL. */
static const char *unfit_target(const struct direct *d, const struct mvld_object *holder,
                                uintptr_t target)
{
    if (!holder || !d->ctx->api->object_holds(holder, target, 1, PROT_EXEC))
        return "the target is not in an object's code";
    if (holder->flags & MVLD_OBJECT_VDSO)
        return "the target is in the vDSO";
    if (holder->flags & MVLD_OBJECT_LOADER)
        return "the target is in the host loader";
    if (holder->flags & MVLD_OBJECT_APART)
        return "the target lies elsewhere each time, and is not for a frozen image";
    return NULL;
}

/* Where a call leads in the end, and the words that show it. */
struct way {
    uintptr_t target, shown[STEPS];
    size_t n;
    const struct mvld_object *holder; /* of the target, or NULL */
};

/* Of a mvld that cannot tell in two steps. */
static int leads(const struct direct *d, const struct mvld_object *object, uintptr_t address,
                 struct mvld_slot *slot, const struct mvld_object **holder)
{
    const struct mvld_api *api = d->ctx->api;
    int error;

    if (MVLD_API_HAS(api, slot_leads))
        return api->slot_leads(d->ctx->image, object, address, slot, holder);
    error = api->slot_find(d->ctx->image, object, address, slot);
    *holder = !error && !slot->why ? api->object_find(d->ctx->image, slot->target) : NULL;
    return error;
}

static const char *name_of(const struct direct *d, const struct mvld_object *object,
                           uintptr_t address)
{
    const struct mvld_api *api = d->ctx->api;
    struct mvld_slot slot = {.name = NULL};

    if (MVLD_API_HAS(api, slot_name))
        return api->slot_name(d->ctx->image, object, address);
    return api->slot_find(d->ctx->image, object, address, &slot) ? NULL : slot.name;
}

/* Where the slot is certain to lead.  An executable at a fixed address has its own PLT
 * entries stand for functions whose address it takes, and the host loader binds other
 * objects' slots to them: such an entry jumps through a slot for the same symbol, and
 * the way goes on there.  (A function that only jumps to another one looks alike, but
 * that one has another name.) */
static const char *follow(const struct direct *d, uintptr_t address, struct way *way)
{
    const struct mvld_api *api = d->ctx->api;
    const struct mvld_object *at = d->object;
    const char *first = NULL, *name;
    struct mvld_slot slot;

    if (leads(d, at, address, &slot, &way->holder))
        return "the host loader fills no such slot";
    for (int steps = 0; !slot.why && steps < STEPS; steps++) {
        if (d->leave_rewritable && !(slot.flags & MVLD_SLOT_RELRO))
            return "the slot stays writable (rewritable = leave)";
        way->shown[way->n++] = slot.shown;
        way->target = slot.target;
        if (!way->holder || !(way->holder->flags & MVLD_OBJECT_MAIN))
            return NULL;
        first = first ? first : name_of(d, at, address);
        at = way->holder;
        address = api->plt_slot(at, slot.target);
        name = address ? name_of(d, at, address) : NULL;
        if (!first || !name || !rimf_streq(name, first) ||
            leads(d, at, address, &slot, &way->holder))
            return NULL;
    }
    return slot.why ? slot.why : "PLT entries lead to each other";
}

/* A function that is called seldom has its name in the object that has it: where none of the names is
 * defined, no slot's name need be looked at. */
static int is_seldom(struct direct *d, uintptr_t slot, const struct mvld_object *holder)
{
    const char *name = holder && direct_has_seldom(d, holder) ? name_of(d, d->object, slot) : NULL;

    return name && direct_is_seldom(name);
}

void direct_judge(struct direct *d, uintptr_t slot, struct direct_lead *lead)
{
    struct way way = {.n = 0};
    const char *why = follow(d, slot, &way);

    if (!why)
        why = unfit_target(d, way.holder, way.target);
    for (size_t i = 0; !why && i < way.n; i++)
        if (d->ctx->api->depends(d->ctx->image, d->object, way.shown[i]))
            why = "memory is short";
    *lead = (struct direct_lead){
        .slot = slot,
        .target = way.target,
        .why = why,
        .seldom = !why && is_seldom(d, slot, way.holder),
    };
}

static struct direct_lead *place(const struct direct *d, uintptr_t slot)
{
    return &d->known[(slot >> 3) & (d->n_known - 1)];
}

/* A longer table with the same leads.  Without memory the old one serves on. */
static int grow(struct direct *d)
{
    const struct mvld_api *api = d->ctx->api;
    size_t n = d->n_known, more = n ? 4 * n : LEADS_AT_FIRST;
    struct direct_lead *old = d->known;
    struct direct_lead *known = more > LEADS_MOST
                                    ? NULL
                                    : api->alloc(d->ctx->image, more * sizeof *known);

    if (!known)
        return 0;
    d->known = known;
    d->n_known = more;
    for (size_t i = 0; i < n; i++)
        if (old[i].slot)
            *place(d, old[i].slot) = old[i];
    api->release(d->ctx->image, old);
    return 1;
}

/* Of the slot, and not of those whose place it takes. */
static struct direct_lead *lead_of(struct direct *d, uintptr_t slot)
{
    struct direct_lead *lead = d->n_known ? place(d, slot) : NULL;

    if (lead && lead->slot == slot)
        return lead;
    while ((!lead || lead->slot) && grow(d))
        lead = place(d, slot);
    if (!lead)
        lead = &d->only;
    direct_judge(d, slot, lead);
    return lead;
}

const char *direct_left_for(const struct direct_lead *lead)
{
    if (lead->why)
        return lead->why;
    return lead->seldom ? "such calls run once, or when the program fails: not worth a page" : NULL;
}

const char *direct_stays(struct direct *d, uintptr_t slot)
{
    return direct_left_for(lead_of(d, slot));
}

const char *direct_lead(struct direct *d, uintptr_t leads, uintptr_t slot, uintptr_t *target)
{
    struct direct_lead *lead = lead_of(d, slot);

    if (leads != slot && leads != lead->entry) {
        if (d->ctx->api->plt_slot(d->object, leads) != slot)
            return "the code is not what the analysis says";
        lead->entry = leads;
    }
    *target = lead->target;
    return lead->why;
}

void direct_leads_forget(struct direct *d)
{
    if (d->n_known)
        memset(d->known, 0, d->n_known * sizeof *d->known);
}
