/* SPDX-License-Identifier: MIT
 *
 * loader/place/place.h: addresses of libraries, their distances, and the file of each.
 */
#ifndef LOADER_PLACE_H
#define LOADER_PLACE_H

#include "rimf/base/file_id.h"

struct mvld_object;
struct loader;

/* ---- place.c ----------------------------------------------------------------------------- */

struct arena {
    uintptr_t start, end; /* end 0: the kernel chooses addresses */
    uintptr_t next;       /* start of the lowest object */
    uintptr_t above;      /* end of the highest object */
    uintptr_t grain;      /* `end` is a multiple of it in every process of the program */
    uintptr_t slack;      /* the first object ends less than this below `end` */
    uint64_t layout_seed;       /* determines distances; 0: no gaps between objects */
    uint64_t taken;       /* number of addresses drawn so far */
    int spacious;         /* planned for a pass that takes much space (place_near_low) */
};

/* An executable linked to addresses that end between these has no room for libraries near it, wherever the heap is. */
#define PLACE_NONE_FROM (1536ul << 20)
#define PLACE_NONE_TO (3072ul << 20)

void place_plan(struct loader *);
void place_near_low(struct loader *, int spacious); /* a part of place_plan, for tests */
void place_finish(struct loader *); /* called when all passes are known */
/* Marks in the image all objects whose address in the arena varies. */
void place_set_unplaced(const struct loader *);
/* Maps memory within reach of objects near the program, or returns negative errno; for the image. */
long place_room(void *loader, size_t size);
struct mmap_call {
    uintptr_t address, length, prot, flags, fd, offset;
}; /* then, from start/entry.S: the caller's %rbx, %r12 to %r15, %rbp, and its stack */
/* Makes such a mapping in the arena, preferably at `first` (if not 0); returns its address or an
 * error. */
long place_map(struct loader *, const struct mmap_call *, uintptr_t first);

int place_is_random(const struct loader *); /* 1: the kernel draws addresses */
int place_random(const struct loader *, uint64_t *out); /* 0: none available */
void place_loosen(struct arena *); /* nothing is mapped in it yet */
uintptr_t place_take(struct arena *, size_t length);
/* Excludes this range. */
void place_keep(struct arena *, uintptr_t at, size_t length);

/* ---- files.c ----------------------------------------------------------------------------- */

#define FILES_AT_FIRST 32

struct mapped_file {
    uintptr_t start, end;
    int known; /* the identity is known */
    struct file_id identity;
};

struct files {
    int wanted;    /* a pass of the pipeline needs it */
    int reserved;  /* the newest object has a reservation, and no file yet */
    int segmented; /* it is mapped segment by segment */
    struct mapped_file *at;
    size_t n, room;
};

void files_start(struct loader *);
void files_want(struct loader *); /* the pipeline has changed */
void files_note(struct loader *, uintptr_t start, size_t length, int fd);
const struct file_id *files_identity(const struct loader *, uintptr_t address);

#endif
