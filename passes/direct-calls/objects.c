/* SPDX-License-Identifier: MIT
 *
 * objects.c: one object after the other: references become patches.
 *
 * Nothing of the analysis is believed but that an instruction begins at the site: the
 * instruction is read, the PLT entry that it leads to is read, and the slot behind it
 * must be one that the host loader fills.  Then the image tells what it holds.
 *
 * Patches are committed some thousands at a time: each takes 50 bytes of fresh memory
 * until then, each commit a dozen system calls.
 */
#include "direct.h"
#include "site.h"

#include "base.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

#define BATCH_MAX 4096u
#define STEPS 8 /* an entry may lead to another object's entry */

static void leave(struct direct *d, const char *why)
{
    struct direct_counts *c = &d->counts;
    size_t i = 0;

    while (i < c->n_left && !rimf_streq(c->left[i].why, why))
        i++;
    if (i == DIRECT_REASONS) {
        i--;
        c->left[i].why = "for several other reasons";
    } else if (i == c->n_left) {
        c->left[c->n_left++].why = why;
    }
    c->left[i].n++;
}

/* ---- patches -------------------------------------------------------------------- */

static const char *refusal(int result)
{
    switch (result) {
    case -ESTALE:
        return "the patch engine found other bytes";
    case -EFAULT:
        return "the site is not in private executable memory";
    default:
        return "the patch engine refused the site";
    }
}

static void count_page(struct direct *d, uintptr_t address)
{
    uintptr_t page = rimf_page_down(address);

    if (page > d->last_page) { /* sites ascend within an object */
        d->last_page = page;
        d->pages++;
    }
}

static void count_applied(struct direct *d)
{
    const struct mvld_api *api = d->ctx->api;

    for (size_t i = 0; i < api->patch_count(d->batch); i++) {
        const struct mvld_patch *patch = api->patch_at(d->batch, i);

        if (patch->result) {
            leave(d, refusal(patch->result));
            continue;
        }
        d->made++;
        count_page(d, patch->address);
        count_page(d, patch->address + patch->length - 1u);
    }
}

int direct_flush(struct direct *d)
{
    const struct mvld_api *api = d->ctx->api;
    int err;

    if (!d->batch)
        return 0;
    err = api->patch_commit(d->batch, NULL);
    if (err == -EPERM || err == -ENOMEM) /* no other object will fare better */
        err = api->fail(d->ctx->image, -err, "direct-calls: no code could be changed: %s",
                        api->last_error(d->ctx->image));
    else
        err = 0;
    count_applied(d);
    api->patch_end(d->batch);
    d->batch = NULL;
    return err;
}

static int add(struct direct *d, const struct site *site)
{
    const struct mvld_api *api = d->ctx->api;
    int err;

    if (!d->batch)
        d->batch = api->patch_begin(d->ctx->image);
    err = d->batch ? api->patch_add(d->batch, site->address, site->old, site->made, site->length)
                   : -ENOMEM;
    if (err)
        return api->fail(d->ctx->image, -err, "direct-calls: out of memory for patches");
    return api->patch_count(d->batch) >= BATCH_MAX ? direct_flush(d) : 0;
}

/* ---- sites ------------------------------------------------------------------------ */

/* Why the site must not lead straight to `target`, or NULL. */
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

/* The slot that the site goes through, or 0. */
static uintptr_t slot_of(const struct direct *d, const struct site *site)
{
    return site->to_slot ? site->leads : d->ctx->api->plt_slot(d->object, site->leads);
}

static size_t room_at(const struct direct *d, uintptr_t address)
{
    for (size_t n = SITE_MAX; n >= SITE_MAX - 1; n--)
        if (d->ctx->api->object_holds(d->object, address, n, PROT_READ | PROT_EXEC))
            return n;
    return 0;
}

/* Where a site leads in the end, and the words that show it. */
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

static const char *make_direct(struct direct *d, const struct mvld_reference *reference,
                               struct site *site)
{
    struct way way = {.n = 0};
    const char *why;

    if (!site_read(site, reference->kind, reference->site, room_at(d, reference->site)) ||
        slot_of(d, site) != reference->slot)
        return "the code is not what the analysis says";
    why = follow(d, reference->slot, &way);
    if (!why)
        why = unfit_target(d, way.target);
    if (!why && !site_make(site, way.target))
        why = "the target is farther than 2 GiB";
    for (size_t i = 0; !why && i < way.n; i++)
        if (d->ctx->api->depends(d->ctx->image, d->object, way.shown[i]))
            why = "memory is short";
    return why;
}

static int visit(void *cookie, const struct mvld_reference *reference)
{
    struct direct *d = cookie;
    struct site site;
    const char *why = make_direct(d, reference, &site);

    d->sites++;
    if (why)
        leave(d, why);
    else
        d->error = add(d, &site);
    return d->error;
}

int direct_object(struct direct *d, const struct mvld_object *object)
{
    const struct mvld_api *api = d->ctx->api;
    const char *why = object->why;
    int err;

    d->object = object;
    d->sites = d->made = d->pages = 0;
    d->last_page = 0;
    if (!why && object->flags & MVLD_OBJECT_APART)
        why = "it lies elsewhere each time, and is not for a frozen image";
    if (why) {
        api->log(d->ctx->image, MVLD_LOG_PASSES, "direct-calls: %s: left: %s", object->name, why);
        return 0;
    }
    err = api->reference_each(d->ctx->image, object, visit, d, &why);
    if (err == -ENODATA && !d->error) {
        api->log(d->ctx->image, MVLD_LOG_PASSES,
                 "direct-calls: no analysis of %s: %s: run mvld analyze", object->name, why);
        return 0;
    }
    if (!err)
        err = direct_flush(d);
    d->counts.objects++;
    d->counts.sites += d->sites;
    d->counts.made += d->made;
    d->counts.pages += d->pages;
    api->log(d->ctx->image, MVLD_LOG_PASSES,
             "direct-calls: %s: %zu of %zu sites made direct, %zu pages made private",
             object->name, d->made, d->sites, d->pages);
    return err;
}
