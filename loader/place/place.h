/* SPDX-License-Identifier: MIT
 *
 * loader/place/place.h: where libraries go, at what distances from each other, and which file
 * each came from.
 */
#ifndef LOADER_PLACE_H
#define LOADER_PLACE_H

#include "rimf/base/file_id.h"

struct mvld_object;
struct loader;

/* ---- place.c ----------------------------------------------------------------------------- */

struct arena {
    uintptr_t start, end; /* end 0: objects stay where the kernel puts them */
    uintptr_t next;       /* the lowest object begins here */
    uintptr_t above;      /* and the highest ends here */
    uintptr_t grain;      /* `end` is a multiple of it in every process of the program */
    uintptr_t slack;      /* the first object ends less than this below `end` */
    uint64_t layout_seed;       /* distances follow from it; 0: there are none between objects */
    uint64_t taken;       /* so many places were asked for */
    int spacious;         /* it was planned for a pass that takes much space (place_near_low) */
};

void place_plan(struct loader *);
void place_near_low(struct loader *, int spacious); /* of it, for tests */
void place_finish(struct loader *); /* it is known which passes there are */
/* Tells the image of all objects that lie elsewhere in the arena each time. */
void place_set_unplaced(const struct loader *);
/* Memory within reach of what lies near the program, or negative errno; for the image. */
long place_room(void *loader, size_t size);
struct mmap_call {
    uintptr_t address, length, prot, flags, fd, offset;
}; /* behind it, from entry.S: the caller's %rbx, %r12 to %r15, %rbp, and its stack */
/* Such a mapping, at a place in the arena, `first` (or 0) before any other; or an error. */
long place_map(struct loader *, const struct mmap_call *, uintptr_t first);

/* ---- draw.c ------------------------------------------------------------------------------ */

int place_is_random(const struct loader *); /* 1: the kernel draws addresses */
int place_random(const struct loader *, uint64_t *out); /* 0: it gives nothing */
void place_loosen(struct arena *); /* nothing lies in it yet */
uintptr_t place_take(struct arena *, size_t length);
/* Nothing shall be put there. */
void place_keep(struct arena *, uintptr_t at, size_t length);

/* ---- files.c ----------------------------------------------------------------------------- */

#define FILES_AT_FIRST 32

struct mapped_file {
    uintptr_t start, end;
    int known; /* the identity is */
    struct file_id identity;
};

struct files {
    int wanted;    /* a pass of the pipeline asks */
    int reserved;  /* the newest object got address space, and no file yet */
    int segmented; /* it comes segment by segment */
    struct mapped_file *at;
    size_t n, room;
};

void files_start(struct loader *);
void files_note(struct loader *, uintptr_t start, size_t length, int fd);
const struct file_id *files_identity(const struct loader *, uintptr_t address);

#endif
