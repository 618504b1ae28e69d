/* SPDX-License-Identifier: MIT
 *
 * leads.c: where calls lead, by what they name: an entry of the PLT, or a slot.
 *
 * Of an object's sites dozens name the same.  The entry is decoded, the slot read and its
 * target judged for the first of them; the others find the answer in a table, in which a
 * newcomer takes the place of who had it.  When newcomers are many, the table grows: from
 * what fits a small program, whose memory is counted in pages, to what libcrypto names.
 */
#include "direct.h"

#include "base.h"

#include <sys/mman.h> /* numbers only */

#define LEADS_AT_FIRST 128u
#define LEADS_MOST 4096u
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
    for (int steps = 0; !slot.why && steps < STEPS; steps++) {
        if (d->leave_rewritable && !(slot.flags & MVLD_SLOT_RELRO))
            return "the slot stays writable (rewritable = leave)";
        way->shown[way->n++] = slot.shown;
        way->target = slot.target;
        holder = api->object_find(d->ctx->image, slot.target);
        address = holder ? api->plt_slot(holder, slot.target) : 0;
        if (!address || api->slot_find(d->ctx->image, holder, address, &slot) || !slot.name ||
            !rimf_streq(slot.name, first.name))
            return NULL;
    }
    return slot.why ? slot.why : "PLT entries lead to each other";
}

static const char *judge(const struct direct *d, struct direct_lead *lead)
{
    struct way way = {.n = 0};
    const char *why = follow(d, lead->slot, &way);

    if (!why)
        why = unfit_target(d, way.target);
    for (size_t i = 0; !why && i < way.n; i++)
        if (d->ctx->api->depends(d->ctx->image, d->object, way.shown[i]))
            why = "memory is short";
    lead->target = way.target;
    return why;
}

/* The place for a lead, or NULL: there is no table. */
static struct direct_lead *place(const struct direct *d, uintptr_t leads)
{
    size_t at = (leads >> 3) * 0x9e3779b97f4a7c15u >> 32;

    return d->n_known ? &d->known[at & (d->n_known - 1)] : NULL;
}

/* A larger table, with nothing in it.  Without memory the old one serves on. */
static void grow(struct direct *d)
{
    const struct mvld_api *api = d->ctx->api;
    size_t n = d->n_known ? 4 * d->n_known : LEADS_AT_FIRST;
    struct direct_lead *known = n > LEADS_MOST
                                    ? NULL
                                    : api->alloc(d->ctx->image, n * sizeof *known);

    d->asked = 0;
    if (!known)
        return;
    api->release(d->ctx->image, d->known);
    d->known = known;
    d->n_known = n;
}

struct direct_lead direct_lead_of(struct direct *d, uintptr_t leads, int is_slot)
{
    struct direct_lead lead = {
        .leads = leads,
        .is_slot = is_slot,
        .slot = is_slot ? leads : d->ctx->api->plt_slot(d->object, leads),
    };

    lead.why = judge(d, &lead);
    return lead;
}

struct direct_lead direct_lead(struct direct *d, uintptr_t leads, int is_slot)
{
    struct direct_lead *known = place(d, leads), lead;

    if (known && known->leads == leads && known->is_slot == is_slot && leads)
        return *known;
    if (d->asked++ >= 2 * d->n_known)
        grow(d);
    lead = direct_lead_of(d, leads, is_slot);
    known = place(d, leads);
    if (known)
        *known = lead;
    return lead;
}

void direct_leads_forget(struct direct *d)
{
    if (d->n_known)
        memset(d->known, 0, d->n_known * sizeof *d->known);
    d->asked = 0;
}
