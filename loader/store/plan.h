/* SPDX-License-Identifier: MIT
 *
 * loader/store/plan.h: this start's plan for snapshots; shared by store/store.c and store/make.c.
 */
#ifndef LOADER_STORE_PLAN_H
#define LOADER_STORE_PLAN_H

#include "loader/store/folder.h"
#include "rimf/store/store.h"

struct store_plan {
    size_t passes;     /* number of passes whose work a snapshot may hold */
    uint64_t pipeline; /* their fingerprint */
    int build, learns;
    int outdated; /* a snapshot that does not fit is to be removed for a new one */
    int lock;     /* the cache's lock, if this process builds or frees space; or -1 */
    struct store_place place; /* folder of the new one, if this process builds or frees space */
    struct rimf_start *made;  /* the new one's facts about this start */
};

/* Writes the work of these passes; if nothing else was requested, ends the process. */
void store_write(struct loader *, struct store_plan *);

/* Ends the process with a line, on standard error for an error. */
__attribute__((noreturn)) void store_end(struct loader *, const char *before, const char *text,
                                          int status);
/* Prefix of that line if the snapshot was not written. */
#define STORE_REFUSAL "mvld: no snapshot: "

#endif
