/* SPDX-License-Identifier: MIT
 *
 * loader/config/arena.h: memory of one plan.
 *
 * All memory of a plan is freed at once, so the arena only grows: first in the caller's memory,
 * then in chunks from the kernel.
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

/* Returns zeroed memory, 16-byte aligned, or NULL. */
void *arena_alloc(struct arena *, size_t size);
/* Returns a NUL-terminated copy, or NULL. */
char *arena_copy(struct arena *, const char *text, size_t length);
void arena_free(struct arena *);

/* arena_release frees what was allocated since arena_mark: paths, and whatever else would be too
 * large for a small stack. */
struct arena_mark arena_mark(const struct arena *);
void arena_release(struct arena *, struct arena_mark);

#endif
