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

/* Why no call must lead straight to `target`, or NULL. */
static const char *unfit_target(const struct direct *d, uintptr_t target)
{
    const struct mvld_object *holder = d->ctx->api->object_find(d->ctx->image, target);

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
    const char *name; /* of the function, or NULL */
};

/* Where the slot is certain to lead.  An executable at a fixed address has its own PLT
 * entries stand for functions whose address it takes, and the host loader binds other
 * objects' slots to them: such an entry jumps through a slot for the same symbol, and
 * the way goes on there.  (A function that only jumps to another one looks alike, but
 * that one has another name.) */
static const char *follow(const struct direct *d, uintptr_t address, struct way *way)
{
    const struct mvld_api *api = d->ctx->api;
    const struct mvld_object *holder = d->object;
    struct mvld_slot slot, first;

    if (api->slot_find(d->ctx->image, holder, address, &first))
        return "the host loader fills no such slot";
    slot = first;
    way->name = first.name;
    for (int steps = 0; !slot.why && steps < STEPS; steps++) {
        if (d->leave_rewritable && !(slot.flags & MVLD_SLOT_RELRO))
            return "the slot stays writable (rewritable = leave)";
        way->shown[way->n++] = slot.shown;
        way->target = slot.target;
        holder = api->object_find(d->ctx->image, slot.target);
        address = holder && holder->flags & MVLD_OBJECT_MAIN ? api->plt_slot(holder, slot.target)
                                                             : 0;
        if (!address || api->slot_find(d->ctx->image, holder, address, &slot) || !slot.name ||
            !rimf_streq(slot.name, first.name))
            return NULL;
    }
    return slot.why ? slot.why : "PLT entries lead to each other";
}

void direct_judge(const struct direct *d, uintptr_t slot, struct direct_lead *lead)
{
    struct way way = {.n = 0};
    const char *why = follow(d, slot, &way);

    if (!why)
        why = unfit_target(d, way.target);
    for (size_t i = 0; !why && i < way.n; i++)
        if (d->ctx->api->depends(d->ctx->image, d->object, way.shown[i]))
            why = "memory is short";
    *lead = (struct direct_lead){
        .slot = slot,
        .target = way.target,
        .why = why,
        .seldom = !why && way.name && direct_is_seldom(way.name),
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
