/* SPDX-License-Identifier: MIT
 *
 * rimf/image/original.h: the list of code that runs elsewhere than where it was mapped, as far as
 * those must know it who read addresses.  How it is made: rimf/moved/moved.h.
 */
#ifndef RIMF_ORIGINAL_H
#define RIMF_ORIGINAL_H

#include "mvld/pass.h"

struct analysis_home;
struct copy_words; /* rimf/moved/moved.h */
struct rimf_object;
struct rimf_table;

/* Code of one object, all of it or a fragment.  `home` and `at` are equal modulo
 * RIMF_COPY_ALIGN, as far as functions are aligned; of all of it modulo RIMF_COPY_LINE, so that
 * what lay well in the lines of the cache does so again. */
struct rimf_copy {
    const struct rimf_object *object;
    uintptr_t home, at; /* where its movable code begins, and the copy of that place */
    size_t code;        /* bytes of code */
    size_t size;        /* with what lies behind it: a byte, because a call may be the last
                         * instruction, and return addresses have a home, too; the object's jump
                         * tables, when the first of its functions that move is in it.  0: the
                         * object is gone */
    int moved;          /* addresses of it are those of the copy, */
    struct analysis_home *homes; /* but for this code; ascending, from `home` on */
    size_t n_homes;
};
#define RIMF_COPY_ALIGN 16u
#define RIMF_COPY_LINE 64u
/* Where jump tables lie behind it, if they do. */
static inline uintptr_t copies_tables(const struct rimf_copy *copy)
{
    return (copy->at + copy->code + 1 + 7) & ~(uintptr_t)7;
}

struct rimf_copies {
    struct mvld_region region;
    struct rimf_copy *list; /* ascending */
    size_t n, room;         /* n: those that may run */
    size_t n_planned;       /* n <= n_planned: the rest waits for the commit */
    uintptr_t code_end;     /* the first page of the region that is free */
    uintptr_t frames_end;   /* and of the frames */
    size_t n_frames;        /* in the sorted table */
    size_t n_named;         /* symfile.h: the rest has no names for debuggers yet, */
    uintptr_t names;        /* which lie from here on */
    uintptr_t frames_named; /* frames behind this are without */
    enum mvld_pages pages;  /* wanted, of what comes next */
    uintptr_t hot_end;      /* rimf_region_hot; 0: nothing was said */
    int pool_moves;         /* pages of the pool could be moved once */
    uint64_t of_pool[4];    /* moved/pages.c: by 2 MiB of the region: a page of the pool */
    /* Copies around this address, as a segment in which 4 KiB may be changed, or -ENOMEM. */
    int (*code_at)(struct mvld_image *, uintptr_t address, struct mvld_segment *);
    struct copy_words *words; /* moved/words.c: free memory for the next, in a batch */
};

/* Where the code came from, of an address in a copy, or 0.  [any thread, signal
 * handler] */
uintptr_t rimf_copy_home(const struct mvld_image *, uintptr_t address);
/* How many of the n begin at or before the address. */
size_t copies_behind(const struct rimf_copy *list, size_t n, uintptr_t address);

#endif
