/* SPDX-License-Identifier: MIT
 *
 * loader/store/folder.h: which manifest is that of this start, and where it lies
 * (store/folder.c); for store/store.c.
 */
#ifndef LOADER_STORE_FOLDER_H
#define LOADER_STORE_FOLDER_H

#include "loader/loader.h"

#define STORE_PLACE_MAX 1024

struct store_place {
    char folder[STORE_PLACE_MAX]; /* "" when there is none */
    uint32_t user;                 /* besides root's, files of this user */
};

/* The launch key: what the host loader is told that changes which words are bound, and to what, as it would be
 * written on a command line; NULL: nothing.  Asked for at the start only: run directly, the host loader moves
 * the environment. */
const char *store_launch_key(struct loader *);
/* 1: the user has objects preloaded. */
int store_preloads(const struct loader *);
/* Of the first n passes, as they are configured, of the launch key, and of whether a
 * library is left out that takes much address space.  Where passes are only looked at, it is not
 * known yet whether one brings such a library: then that of a start in which none is left out. */
uint64_t store_fingerprint(struct loader *, size_t n);
/* 1: a pass is known to bring such a library, and this start leaves it out (start.c). */
int store_leaves_out(struct loader *);
/* The same with this build of mvld: stored code leads to what another one would have put elsewhere
 * (the stubs of caller/hooks.c). */
uint64_t store_made_by(uint64_t fingerprint);

void store_system_place(const struct loader *, struct store_place *, uint64_t fingerprint);
void store_user_place(struct loader *, struct store_place *, uint64_t fingerprint);
/* Where a new one goes.  Root writes for everybody, but where told otherwise. */
void store_new_place(struct loader *, struct store_place *, uint64_t fingerprint);

#endif
