/* SPDX-License-Identifier: MIT
 *
 * loader/pipeline_arena.h: memory of one plan.
 *
 * Everything that a plan is made of is given back at once, so memory only grows,
 * in chunks from the kernel; and a program without configuration gets none.
 */
#ifndef LOADER_PIPELINE_ARENA_H
#define LOADER_PIPELINE_ARENA_H

#include "sys.h"

struct arena_chunk;

struct arena {
    const struct rimf_sys *sys;
    struct arena_chunk *chunks; /* newest first */
};

/* Zeroed, 16-byte aligned; NULL when there is none. */
void *arena_alloc(struct arena *, size_t size);
/* A NUL-terminated copy, or NULL. */
char *arena_copy(struct arena *, const char *text, size_t length);
void arena_free(struct arena *);

#endif
