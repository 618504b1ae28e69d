/* SPDX-License-Identifier: MIT
 *
 * rimf/base/alloc.h: a heap on pages of our own, separate from the application's malloc, which may
 * be interposed, locked or not initialised when we run.
 *
 * Blocks are zeroed and 16-byte aligned.  Up to RIMF_HEAP_SMALL bytes they come from free lists by
 * size class, refilled from chunks; larger ones are mappings of their own, which are unmapped when
 * released.  Any thread may call.  In a signal handler that interrupted the heap itself an
 * allocation fails and a release leaks.  After a fork during a heap operation the child starts with
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
    struct rimf_block *chunks, *big;            /* unmapped by destroy */
    size_t mapped;                              /* bytes taken from the kernel */
};

void rimf_heap_init(struct rimf_heap *, const struct rimf_sys *);
/* Gives initial memory to a new heap: zeroed, 16-byte aligned, valid as long as the heap.  The
 * kernel is asked for more only when it is used up. */
void rimf_heap_seed(struct rimf_heap *, void *memory, size_t size);
/* 1: until this is called with 0, no other thread and no signal handler uses the heap, so it needs
 * no lock, which costs a system call each time.  Called without holding the lock. */
void rimf_heap_set_alone(struct rimf_heap *, int alone);
/* Unmaps all pages; all blocks become invalid. */
void rimf_heap_destroy(struct rimf_heap *);
void *rimf_heap_alloc(struct rimf_heap *, size_t size); /* NULL: no memory */
/* A copy of the text, or of its first `length` bytes with an end; or NULL: no memory. */
char *rimf_heap_copy(struct rimf_heap *, const char *text);
char *rimf_heap_copy_part(struct rimf_heap *, const char *text, size_t length);
/* Releasing NULL, or a pointer that is no live block of a heap, does nothing. */
void rimf_heap_release(struct rimf_heap *, void *);
/* Doubles an array of *room elements of `size` bytes, or allocates `first` elements if it is NULL;
 * returns the new array.  NULL: no memory, and the array is unchanged. */
void *rimf_heap_grow(struct rimf_heap *, void *array, size_t *room, size_t size, size_t first);
/* The same for a list of `n` elements that gets one more: 1, or 0: no memory. */
#define RIMF_ONE_MORE(heap, list, n, room, first)                                                          \
    __extension__({                                                                                        \
        void *more_ = (n) < (room) ? (list) : rimf_heap_grow(heap, list, &(room), sizeof *(list), first); \
                                                                                                           \
        if (more_)                                                                                         \
            (list) = more_;                                                                                \
        more_ != NULL;                                                                                     \
    })

/* The same in parts, for a caller that allocates many blocks: it saves the lock's system call each
 * time.  Call take and give between enter and leave, or if no other thread knows the heap yet.
 * enter: 0, or -EDEADLK. */
int rimf_heap_enter(struct rimf_heap *);
void rimf_heap_leave(struct rimf_heap *);
void *rimf_heap_take(struct rimf_heap *, size_t size);
void rimf_heap_give(struct rimf_heap *, void *);

#endif
