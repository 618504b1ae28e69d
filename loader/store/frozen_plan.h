/* SPDX-License-Identifier: MIT
 *
 * loader/store/frozen_plan.h: what a start is to do with images; between frozen.c and frozen_make.c.
 */
#ifndef LOADER_FROZEN_PLAN_H
#define LOADER_FROZEN_PLAN_H

#include "loader/store/frozen_place.h"

struct frozen_plan {
    size_t passes;     /* of so many an image may hold the work */
    uint64_t pipeline; /* the fingerprint of these */
    int build, learns;
    int outdated; /* what does not fit is to make room for a new one */
    int lock;     /* the cache's, of who builds or makes room; or -1 */
};

/* Writes what these passes did; who asked for nothing else ends here. */
void frozen_keep(struct loader *, const struct frozen_plan *);
/* For the next start, which finds none. */
void frozen_make_room(struct loader *, const struct frozen_plan *);

/* The process ends with a line, on standard error when something is wrong. */
__attribute__((noreturn)) void frozen_end(struct loader *, const char *before, const char *text,
                                          int status);
/* How that line begins when what was asked for was not written. */
const char *frozen_refusal(const struct loader *);

#endif
