/* SPDX-License-Identifier: MIT
 *
 * loader/store/private.h: shared by the files of the store: folders of manifests (folder.c), and this start's plan
 * (store.c, make.c).
 */
#ifndef LOADER_STORE_PRIVATE_H
#define LOADER_STORE_PRIVATE_H

#include "loader/loader.h"
#include "rimf/store/store.h"

#define STORE_PLACE_MAX 1024

struct store_place {
    char folder[STORE_PLACE_MAX]; /* "" if there is none */
    uint32_t user;                 /* files of this user, besides root's */
};

/* The launch key: the host loader's settings that change which words are bound, and to what, as on a
 * command line; NULL: none.  Called at the start only: if run directly, the host loader moves the
 * environment. */
const char *store_launch_key(struct loader *);
/* Returns 1 if the user has objects preloaded. */
int store_preloads(const struct loader *);
/* A hash of the first n configured passes, of the launch key, and of whether a library that takes much
 * address space is left out.  If passes are only looked up, it is unknown whether one has such a library:
 * then as if none were left out. */
uint64_t store_fingerprint(struct loader *, size_t n);
/* Returns 1 if a pass is known to have such a library, and this start leaves it out (start.c). */
int store_leaves_out(struct loader *);
/* Adds this build of mvld: stored code contains addresses that another build would have placed elsewhere
 * (the stubs of caller/hooks.c). */
uint64_t store_made_by(uint64_t fingerprint);

void store_system_place(const struct loader *, struct store_place *, uint64_t fingerprint);
void store_user_place(struct loader *, struct store_place *, uint64_t fingerprint);
/* The folder for a new one.  Root writes for everybody, unless XDG_CACHE_HOME is set. */
void store_new_place(struct loader *, struct store_place *, uint64_t fingerprint);

struct store_plan {
    size_t passes;     /* number of passes whose work a snapshot may hold */
    uint64_t pipeline; /* their fingerprint */
    int build, learns;
    int outdated; /* a snapshot that does not fit is to be removed for a new one */
    int lock;     /* the cache's lock, if this process builds or frees space; or -1 */
    struct store_place place; /* folder of the new one, if this process builds or frees space */
    struct rimf_start *made;  /* the new one's facts about this start */
};

/* Takes the cache's lock for a plan that builds, or frees space.  One process writes to a cache at a time.  An explicit
 * request waits; others leave it to the next start: then the plan does neither. */
void store_lock(struct loader *, struct store_plan *);
/* Removes a snapshot that does not fit, so that the next start builds; and releases the lock. */
void store_remove_old(struct loader *, const struct store_plan *);
/* What the first n passes do from here on will be written.  Returns n; or 0: it will not, for lack of memory. */
size_t store_record(struct loader *, const struct store_plan *, size_t n);

/* Ends the process with a line, on standard error for an error. */
__attribute__((noreturn)) void store_end(struct loader *, const char *before, const char *text,
                                          int status);

#endif
