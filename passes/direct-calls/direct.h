/* SPDX-License-Identifier: MIT
 *
 * direct.h: what the files of direct-calls share.
 */
#ifndef DIRECT_DIRECT_H
#define DIRECT_DIRECT_H

#include "mvld/pass.h"

#define DIRECT_REASONS 24u

/* Sites that were left, by reason; of more reasons the rest is counted together. */
struct direct_left {
    const char *why; /* static */
    size_t n;
};

struct direct_counts {
    size_t objects; /* with an analysis */
    size_t sites, made, pages;
    struct direct_left left[DIRECT_REASONS];
    size_t n_left;
};

struct direct {
    const struct mvld_context *ctx;
    int leave_rewritable;
    struct mvld_batch *batch;
    struct direct_counts counts;
    /* of the object under way */
    const struct mvld_object *object;
    size_t sites, made, pages;
    uintptr_t last_page;
    int error; /* of a commit: the pass ends */
};

/* Makes the calls of one object direct; what is still in the batch waits for
 * direct_flush.  0, or negative errno with a sentence. */
int direct_object(struct direct *, const struct mvld_object *);
int direct_flush(struct direct *);

#endif
