/* SPDX-License-Identifier: MIT
 *
 * loader/config/arena.h: memory of one plan.
 *
 * Everything that a plan is made of is given back at once, so memory only grows: in
 * what the caller lent, then in chunks from the kernel.
 */
#ifndef LOADER_PIPELINE_ARENA_H
#define LOADER_PIPELINE_ARENA_H

#include "rimf/base/sys.h"

struct arena_chunk;

struct arena {
    const struct rimf_sys *sys;
    struct arena_chunk *chunks; /* newest first */
    /* Zeroed, 16-byte aligned; or NULL. */
    void *lent;
    size_t lent_size;
};

struct arena_mark {
    struct arena_chunk *chunk;
    size_t used;
};

/* Zeroed, 16-byte aligned; NULL when there is none. */
void *arena_alloc(struct arena *, size_t size);
/* A NUL-terminated copy, or NULL. */
char *arena_copy(struct arena *, const char *text, size_t length);
void arena_free(struct arena *);

/* What is allocated between the two is given back: for paths, and whatever else would
 * be too large for a small stack. */
struct arena_mark arena_mark(const struct arena *);
void arena_release(struct arena *, struct arena_mark);

#endif
