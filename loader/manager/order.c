/* SPDX-License-Identifier: MIT
 *
 * loader/manager/order.c: moves passes behind those that they say (`behind`), with any options: also behind idle ones.
 *
 * A pass is moved directly behind the last of them, so that the order of all others changes as little as possible.
 */
#include "rimf/base/base.h"
#include "loader/manager/private.h"

#include <errno.h>

/* The index of the last pass that it runs behind; or i. */
static size_t place_behind(const struct pipeline *p, size_t i)
{
    size_t last = i;

    for (const char *const *n = p->passes[i].pass->behind; n && *n; n++)
        for (size_t other = last + 1; other < p->n; other++)
            if (rimf_streq(p->passes[other].name, *n))
                last = other;
    return last;
}

/* More moves than possible without a cycle mean a cycle. */
int pipeline_order(struct pipeline *p, const struct why *why)
{
    size_t left = p->n * p->n;

    for (size_t i = 0; i < p->n;) {
        size_t last = place_behind(p, i);
        struct planned_pass it = p->passes[i];

        if (last == i) {
            i++;
            continue;
        }
        if (!left--)
            return refuse_at(why, EINVAL, p->order->file, p->order->line,
                             "the passes '%s' and '%s' each run behind the other", it.name,
                             p->passes[last].name);
        for (size_t j = i; j < last; j++)
            p->passes[j] = p->passes[j + 1];
        p->passes[last] = it;
        rimf_log(&p->log, MVLD_LOG_PASSES, "the pass '%s' runs behind '%s'", it.name,
                 p->passes[last - 1].name);
    }
    return 0;
}
