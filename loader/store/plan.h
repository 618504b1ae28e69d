/* SPDX-License-Identifier: MIT
 *
 * loader/store/plan.h: what a start is to do with snapshots; between store/store.c and store/make.c.
 */
#ifndef LOADER_STORE_PLAN_H
#define LOADER_STORE_PLAN_H

#include "loader/store/folder.h"
#include "rimf/store/store.h"

struct store_plan {
    size_t passes;     /* of so many a snapshot may hold the work */
    uint64_t pipeline; /* the fingerprint of these */
    int build, learns;
    int outdated; /* what does not fit is to make room for a new one */
    int lock;     /* the cache's, of who builds or makes room; or -1 */
    struct store_place place; /* of the new one; of who builds or makes room */
    struct rimf_start *made;  /* what the new one says of this start; NULL: there was no memory */
};

/* Writes what these passes did; who asked for nothing else ends here. */
void store_keep(struct loader *, struct store_plan *);

/* The process ends with a line, on standard error when something is wrong. */
__attribute__((noreturn)) void store_end(struct loader *, const char *before, const char *text,
                                          int status);
/* How that line begins when what was asked for was not written. */
#define STORE_REFUSAL "mvld: no snapshot: "

#endif
