/* SPDX-License-Identifier: MIT
 *
 * loader/manager/order.c: checks and obeys the passes' declarations about each other, with any options:
 * also of idle passes.
 *
 * A pass that runs `behind` another one is moved directly behind it, so that the order of all others
 * changes as little as possible.  Contradictions are refused, and so is a pass before one that it must come
 * `after`.
 */
#include "rimf/base/base.h"
#include "loader/manager/private.h"

#include <errno.h>

/* The index of `name`, or p->n. */
static size_t place_of(const struct pipeline *p, const char *name)
{
    size_t i = 0;

    while (i < p->n && !rimf_streq(p->passes[i].name, name))
        i++;
    return i;
}

static int check_pass(const struct pipeline *p, size_t i, const struct why *why)
{
    const struct mvld_pass *pass = p->passes[i].pass;
    const char *file = p->order->file;
    unsigned line = p->order->line;

    for (const char *const *n = pass->requires_passes; n && *n; n++)
        if (place_of(p, *n) == p->n)
            return refuse_at(why, EINVAL, file, line,
                             "the pass '%s' requires '%s', which is not in the pipeline",
                             pass->name, *n);
    for (const char *const *n = pass->conflicts; n && *n; n++)
        if (place_of(p, *n) < p->n)
            return refuse_at(why, EINVAL, file, line,
                             "the pass '%s' cannot be in one pipeline with '%s'", pass->name, *n);
    for (const char *const *n = pass->after; n && *n; n++) {
        size_t other = place_of(p, *n);
        if (other < p->n && other > i)
            return refuse_at(why, EINVAL, file, line,
                             "the pass '%s' must come after '%s', but stands before it",
                             pass->name, *n);
    }
    return 0;
}

/* The index of the last pass that it runs behind; or i. */
static size_t place_behind(const struct pipeline *p, size_t i)
{
    const struct mvld_pass *pass = p->passes[i].pass;
    size_t last = i;

    for (const char *const *n = pass->behind; n && *n; n++) {
        size_t other = place_of(p, *n);

        last = other < p->n && other > last ? other : last;
    }
    return last;
}

/* More moves than possible without a cycle mean a cycle. */
static int move(struct pipeline *p, const struct why *why)
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

int pipeline_order(struct pipeline *p, const struct why *why)
{
    int error = move(p, why);

    for (size_t i = 0; i < p->n && !error; i++)
        error = check_pass(p, i, why);
    return error;
}
