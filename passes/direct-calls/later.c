/* SPDX-License-Identifier: MIT
 *
 * later.c: calls that become direct in copies of the code (the pass concat, behind this one),
 * and not at home, where hardly anybody runs then: home's pages stay the file's, shared by all.
 *
 * The image asks where calls end while code is copied, and gives back what has no copy: that is
 * changed at home, as without concat.  For a frozen image everything is changed at home.
 */
#include "direct.h"

#include "base.h"

static uintptr_t end(void *cookie, const struct mvld_object *object, uintptr_t leads,
                     uintptr_t slot)
{
    struct direct *d = cookie;
    uintptr_t target;
    const char *why;

    if (d->object != object)
        direct_begin(d, object);
    if (!slot)
        return (uintptr_t)d->may_inline;
    why = direct_lead(d, leads, slot, &target);
    if (why)
        direct_leave(d, why, 1);
    return why ? 0 : target;
}

static void copied(void *cookie, const struct mvld_object *object, size_t calls, size_t made)
{
    struct direct *d = cookie;

    d->counts.objects++;
    d->counts.sites += calls;
    d->counts.made += made;
    d->ctx->api->log(d->ctx->image, MVLD_LOG_PASSES,
                     "direct-calls: %s: %zu of %zu sites made direct, in its copy", object->name,
                     made, calls);
}

/* After an error no other object would fare better. */
static void home(void *cookie, const struct mvld_object *object)
{
    struct direct *d = cookie;

    d->error = d->error ? d->error : direct_object(d, object);
}

static void done(void *cookie)
{
    struct direct *d = cookie;

    if (d->error)
        d->ctx->api->log(d->ctx->image, MVLD_LOG_WARNING,
                         "mvld: the pass 'direct-calls' failed (error %d): %s", -d->error,
                         d->ctx->api->last_error(d->ctx->image));
    d->ctx->api->release(d->ctx->image, (void *)d->calls.objects);
    direct_end(d);
}

int direct_later(struct direct *d, const struct mvld_object **objects, size_t n)
{
    const struct mvld_api *api = d->ctx->api;

    if (!MVLD_API_HAS(api, calls_leave) || !api->pass_planned(d->ctx->image, "concat"))
        return 0;
    d->calls = (struct mvld_calls){d, objects, n, end, copied, home, done};
    return !api->calls_leave(d->ctx->image, &d->calls);
}
