/* SPDX-License-Identifier: MIT
 *
 * rimf/base/alloc.h: a heap over pages of our own, apart from the application's
 * malloc, which may be interposed, locked or not initialised when we run.
 *
 * Blocks are zeroed and 16-byte aligned.  Up to RIMF_HEAP_SMALL bytes they come
 * from free lists by size class, refilled from chunks; larger ones are maps of
 * their own that are given back to the kernel.  Any thread may call; from a
 * signal handler that interrupted the heap itself an allocation fails and a
 * release leaks.  After a fork during a heap operation the child starts with
 * empty free lists (see rimf/base/lock.h).
 */
#ifndef RIMF_ALLOC_H
#define RIMF_ALLOC_H

#include "rimf/base/lock.h"

#include <stddef.h>
#include <stdint.h>

#define RIMF_HEAP_CLASSES 21
#define RIMF_HEAP_SMALL 32752u /* 32768 less the block's header */

struct rimf_block; /* see alloc.c */

struct rimf_heap {
    const struct rimf_sys *sys;
    struct rimf_lock lock;
    int alone; /* rimf_heap_set_alone */
    uintptr_t fresh, fresh_end;                 /* unused part of the newest chunk */
    struct rimf_block *free[RIMF_HEAP_CLASSES]; /* released blocks */
    struct rimf_block *chunks, *big;            /* what destroy unmaps */
    size_t mapped;                              /* bytes taken from the kernel */
};

void rimf_heap_init(struct rimf_heap *, const struct rimf_sys *);
/* First memory for a new heap: zeroed, 16-byte aligned, there as long as the heap.  The
 * kernel is asked for more only when it is used up. */
void rimf_heap_seed(struct rimf_heap *, void *memory, size_t size);
/* 1: no other thread runs, nor a signal handler, until 0 is said; the lock would cost a system call
 * each time.  By who has not entered. */
void rimf_heap_set_alone(struct rimf_heap *, int alone);
/* Gives all pages back; blocks are gone. */
void rimf_heap_destroy(struct rimf_heap *);
void *rimf_heap_alloc(struct rimf_heap *, size_t size); /* NULL: no memory */
/* The same text, or NULL: no memory. */
char *rimf_heap_copy(struct rimf_heap *, const char *text);
/* NULL is nothing.  A pointer that is not a live block of a heap is left alone. */
void rimf_heap_release(struct rimf_heap *, void *);
/* An array of *room elements of `size` bytes gets room for twice as many, `first` where it is NULL: it lies
 * elsewhere then.  NULL: no memory, and it is as it was. */
void *rimf_heap_grow(struct rimf_heap *, void *array, size_t *room, size_t size, size_t first);

/* The same in parts, for who allocates many blocks at once: a system call for the
 * lock each time is spared.  take and give are for who has entered, and for who
 * alone knows the heap yet.  enter: 0, or -EDEADLK. */
int rimf_heap_enter(struct rimf_heap *);
void rimf_heap_leave(struct rimf_heap *);
void *rimf_heap_take(struct rimf_heap *, size_t size);
void rimf_heap_give(struct rimf_heap *, void *);

#endif
