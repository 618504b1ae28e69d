/* SPDX-License-Identifier: MIT
 *
 * concat.h: shared by the files of concat.
 */
#ifndef CONCAT_CONCAT_H
#define CONCAT_CONCAT_H

#include <mvld/freestanding.h>
#include <mvld/pass.h>

enum { /* order of the options */
    CONCAT_ORDER, CONCAT_LEAVE, CONCAT_DEBUGGER, CONCAT_PERF_MAP, CONCAT_PAGES,
    CONCAT_PROFILE, CONCAT_COPY
};

/* The code that moves, in the order of the region. */
struct concat_item {
    const struct mvld_object *object;
    struct mvld_fragment fragment; /* of size 0: all of it, as one block */
    size_t gap;              /* unused bytes before it */
};
struct concat_plan {
    struct concat_item *items;
    size_t n, n_hot; /* n_hot: number of first items, which a profile named */
    size_t hot;      /* bytes of the n_hot items */
};

/* Plans these objects by the options.  0, or negative errno with a sentence (fail). */
int concat_plan(const struct mvld_context *, const struct mvld_object *const *objects, size_t n,
                struct concat_plan *);
void concat_plan_release(const struct mvld_context *, struct concat_plan *);

/* Functions that a profile names, at their original addresses, hottest first; to be released. */
struct concat_hot {
    size_t object; /* index of its object */
    uintptr_t original;
};
struct concat_profile {
    struct concat_hot *hot;
    size_t n;
};
int concat_profile_read(const struct mvld_context *, const struct mvld_object *const *objects,
                        size_t n, struct concat_profile *);

#endif
