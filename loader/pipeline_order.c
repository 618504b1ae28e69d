/* SPDX-License-Identifier: MIT
 *
 * loader/pipeline_order.c: what the passes of a pipeline declare about each other.  That holds
 * whatever their options are: also of passes that have nothing to do.
 */
#include "base.h"
#include "pipeline_private.h"

#include <errno.h>

/* Where `name` stands, or p->n. */
static size_t place_of(const struct pipeline *p, const char *name)
{
    size_t i = 0;

    while (i < p->n && !rimf_streq(p->passes[i].name, name))
        i++;
    return i;
}

int pipeline_has(const void *pipeline, const char *pass)
{
    const struct pipeline *p = pipeline;
    size_t i = place_of(p, pass);

    return i < p->n && p->passes[i].status != PASS_IDLE;
}

static int check_pass(const struct pipeline *p, size_t i, const struct why *why)
{
    const struct mvld_pass *pass = p->passes[i].pass;
    const char *file = p->order->file;
    unsigned line = p->order->line;

    if (place_of(p, pass->name) < i)
        return refuse_at(why, EINVAL, file, line, "the pass '%s' is in the pipeline twice",
                         pass->name);
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

int pipeline_check_order(const struct pipeline *p, const struct why *why)
{
    for (size_t i = 0; i < p->n; i++) {
        int error = check_pass(p, i, why);
        if (error)
            return error;
    }
    return 0;
}
