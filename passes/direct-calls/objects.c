/* SPDX-License-Identifier: MIT
 *
 * objects.c: one object after the other: references become patches.
 *
 * Nothing of the analysis is believed but that an instruction begins at the site: the
 * instruction is read, the PLT entry that it leads to is read, and the slot behind it
 * must be one that the host loader fills.  Then the image tells what it holds.  So is the function
 * of a single instruction that a call leads to.
 *
 * At a start nothing else runs, and the calls are changed where they are read (api->references_change).
 * Where that cannot be, they become patches, which are committed some thousands at a time: each
 * takes 24 bytes of fresh memory until then, each commit a dozen system calls.
 */
#include "direct.h"
#include "slot_call.h"

#include "base.h"
#include "mvld/descriptor.h"

#include <errno.h>    /* numbers only */

void direct_leave(struct direct *d, const char *why, size_t n)
{
    struct direct_counts *c = &d->counts;
    size_t i = 0;

    if (!n)
        return;
    while (i < c->n_left && c->left[i].why != why && !rimf_streq(c->left[i].why, why))
        i++;
    if (i == DIRECT_REASONS) {
        i--;
        c->left[i].why = "for several other reasons";
    } else if (i == c->n_left) {
        c->left[c->n_left++].why = why;
    }
    c->left[i].n += n;
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

static void count_made(struct direct *d, uintptr_t address, size_t length)
{
    d->made++;
    count_page(d, address);
    count_page(d, address + length - 1u);
}

/* The engine lists patches only when it refused some. */
static void count_applied(struct direct *d, const struct mvld_batch *batch)
{
    const struct mvld_api *api = d->ctx->api;
    const struct direct_work *work = d->work;
    size_t listed = api->patch_count(batch);

    for (size_t i = 0; i < listed; i++) {
        const struct mvld_patch *patch = api->patch_at(batch, i);

        if (patch->result)
            direct_leave(d, refusal(patch->result), 1);
        else
            count_made(d, patch->address, patch->length);
    }
    for (size_t i = 0; !listed && i < work->n; i++)
        count_made(d, d->object->bias + work->words[i].offset, work->words[i].length);
}

static int no_memory(struct direct *d)
{
    return d->ctx->api->fail(d->ctx->image, ENOMEM, "direct-calls: out of memory for patches");
}

static int flush(struct direct *d)
{
    const struct mvld_api *api = d->ctx->api;
    struct direct_work *work = d->work;
    struct mvld_batch *batch;
    int err;

    if (!work->n)
        return 0;
    batch = api->patch_begin(d->ctx->image);
    if (!batch || api->patch_add_words(batch, d->object->bias, work->words, work->old, work->made,
                                       work->n)) {
        api->patch_end(batch);
        return no_memory(d);
    }
    err = api->patch_commit(batch, NULL);
    if (err == -EPERM || err == -ENOMEM) /* no other object will fare better */
        err = api->fail(d->ctx->image, -err, "direct-calls: no code could be changed: %s",
                        api->last_error(d->ctx->image));
    else
        err = 0;
    count_applied(d, batch);
    api->patch_end(batch);
    work->n = 0;
    return err;
}

/* A site that already is what it shall be has no patch. */
static int add(struct direct *d, const struct site *site)
{
    struct direct_work *work = d->work;

    work->words[work->n] = (struct mvld_word){
        .offset = (uint32_t)(site->address - d->object->bias),
        .length = site->length,
    };
    work->old[work->n] = site->old;
    work->made[work->n++] = site->made;
    return work->n == DIRECT_BATCH ? flush(d) : 0;
}

/* ---- sites ------------------------------------------------------------------------ */

/* Its instruction instead of the call. */
static const char *make_inline(struct direct *d, struct site *site)
{
    if (!site_inline(site, site_room(d->object, site->leads)))
        return "the code is not what the analysis says";
    return d->ctx->api->depends(d->ctx->image, d->object, 0) ? "memory is short" : NULL;
}

static const char *make_direct(struct direct *d, const struct mvld_reference *reference,
                               struct site *site)
{
    uintptr_t target;
    const char *why;

    if (!site_read(site, reference->kind, reference->site, site_room(d->object, reference->site)))
        return "the code is not what the analysis says";
    if (reference->kind == MVLD_REFERENCE_CALL_SINGLE)
        return make_inline(d, site);
    if (site->to_slot != (site->leads == reference->slot))
        return "the code is not what the analysis says";
    why = direct_lead(d, site->leads, reference->slot, &target);
    if (!why && !site_make(site, target))
        return "the target is farther than 2 GiB";
    return why;
}

static int visit(void *cookie, const struct mvld_reference *reference)
{
    struct direct *d = cookie;
    struct site site;
    const char *why;

    if (reference->kind == MVLD_REFERENCE_CALL_SINGLE && !d->may_inline)
        return 0;
    why = reference->slot ? direct_stays(d, reference->slot) : NULL;
    if (!why)
        why = make_direct(d, reference, &site);
    d->sites++;
    if (why)
        direct_leave(d, why, 1);
    else
        d->error = add(d, &site);
    return d->error;
}

/* ---- all at once -------------------------------------------------------------------- */

static uintptr_t end(void *cookie, uintptr_t slot)
{
    struct direct *d = cookie;
    struct direct_lead lead;

    if (!slot)
        return (uintptr_t)(d->may_inline && !d->ctx->api->depends(d->ctx->image, d->object, 0));
    direct_judge(d, slot, &lead);
    return direct_left_for(&lead) ? 0 : lead.target;
}

static void became(void *cookie, uintptr_t slot, size_t calls, size_t made, size_t far)
{
    struct direct *d = cookie;
    struct direct_lead lead = {.why = NULL};
    const char *why;

    if (!slot && !d->may_inline)
        return;
    d->sites += calls;
    d->made += made;
    direct_leave(d, "the target is farther than 2 GiB", far);
    if (calls == made + far)
        return;
    if (slot)
        direct_judge(d, slot, &lead);
    why = direct_left_for(&lead);
    direct_leave(d, why ? why : "the code is not what the analysis says", calls - made - far);
}

/* 1: done. */
static int change_at_once(struct direct *d, const struct mvld_object *object)
{
    const struct mvld_api *api = d->ctx->api;
    const struct mvld_ends ends = {d, end, became};
    size_t few = 0;
    long pages = -ENOSYS;

    if (MVLD_API_HAS(api, references_change_dense))
        pages = api->references_change_dense(d->ctx->image, object, &ends, d->least, &few);
    else if (MVLD_API_HAS(api, references_change))
        pages = api->references_change(d->ctx->image, object, &ends);
    if (pages < 0)
        return 0;
    d->sites += few;
    direct_leave(d, "they stand in pages with fewer calls than calls-per-page", few);
    d->pages = (size_t)pages;
    return 1;
}

/* ---- an object ------------------------------------------------------------------------ */

/* Of objects with descriptors of multiverse none is: any function may be changed, and is to be
 * called then. */
void direct_begin(struct direct *d, const struct mvld_object *object)
{
    d->object = object;
    d->may_inline = d->inlines && !d->ctx->api->note_each(object, MULTIVERSE_NOTE_NAME,
                                                          MULTIVERSE_NOTE_TABLES, NULL, NULL);
    d->sites = d->made = d->pages = 0;
    d->last_page = 0;
    direct_leads_forget(d);
}

/* -ENODATA: there is no analysis. */
static int patch(struct direct *d, const struct mvld_object *object)
{
    const struct mvld_api *api = d->ctx->api;
    const char *why;
    int err;

    if (!d->work)
        d->work = api->alloc(d->ctx->image, sizeof *d->work);
    if (!d->work)
        return no_memory(d);
    err = api->reference_each(d->ctx->image, object, visit, d, &why);
    if (err == -ENODATA && !d->error)
        api->log(d->ctx->image, MVLD_LOG_PASSES,
                 "direct-calls: no analysis of %s: %s: run mvld analyze", object->name, why);
    return err ? err : flush(d);
}

int direct_object(struct direct *d, const struct mvld_object *object)
{
    const struct mvld_api *api = d->ctx->api;
    const char *why = object->why;
    int err;

    direct_begin(d, object);
    if (!why && object->flags & MVLD_OBJECT_APART)
        why = "it lies elsewhere each time, and is not for a frozen image";
    if (why) {
        api->log(d->ctx->image, MVLD_LOG_PASSES, "direct-calls: %s: left: %s", object->name, why);
        return 0;
    }
    err = change_at_once(d, object) ? 0 : patch(d, object);
    if (err == -ENODATA)
        return 0;
    d->counts.objects++;
    d->counts.sites += d->sites;
    d->counts.made += d->made;
    d->counts.pages += d->pages;
    api->log(d->ctx->image, MVLD_LOG_PASSES,
             "direct-calls: %s: %zu of %zu sites made direct, %zu pages made private",
             object->name, d->made, d->sites, d->pages);
    return err;
}
