/* SPDX-License-Identifier: MIT
 *
 * order.c: which object's code comes first in the region.
 *
 *     as-loaded   the link map's order: an object before those that it needs
 *     random      drawn anew, so that an address in the region does not tell where the
 *                 code of the other objects is
 */
#include "concat.h"

#include "base.h"
#include "sys.h"

/* Where the kernel has no randomness to give, the order stays as it is. */
static uint64_t draw(const struct mvld_context *ctx, uint64_t below)
{
    uint64_t random = 0;

    if (SYS3(ctx->sys, SYS_getrandom, &random, sizeof random, 1 /* GRND_NONBLOCK */) !=
        (long)sizeof random)
        return below - 1;
    return random % below;
}

void concat_order(const struct mvld_context *ctx, size_t *order, size_t n)
{
    for (size_t i = 0; i < n; i++)
        order[i] = i;
    if (!rimf_streq(ctx->settings[CONCAT_ORDER].text, "random"))
        return;
    for (size_t i = n; i-- > 1;) { /* Fisher and Yates */
        size_t k = draw(ctx, i + 1), other = order[i];

        order[i] = order[k];
        order[k] = other;
    }
}
