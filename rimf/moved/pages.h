/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/pages.h: what moved/pages.c and moved/pages_file.c share.
 */
#ifndef RIMF_MOVED_PAGES_H
#define RIMF_MOVED_PAGES_H

#include "rimf/moved/moved.h"

#include "rimf/base/base.h"
#include "rimf/image/private.h"

#include <errno.h>      /* numbers only */
#include <linux/mman.h> /* numbers only */
#include <sys/mman.h>   /* numbers only */

#define HUGE (2ul << 20)
#define COLLAPSE 25

/* The whole 2 MiB in [start, end). */
struct whole {
    uintptr_t start;
    size_t n;
};

static inline struct whole whole_of(uintptr_t start, uintptr_t end)
{
    uintptr_t first = (start + HUGE - 1) & -HUGE, last = end & -HUGE;

    return (struct whole){first, first < last ? (last - first) / HUGE : 0};
}

static inline int pages_want_pool(const struct moved_code *moved)
{
    return moved->pages == MVLD_PAGES_HUGETLB || moved->pages == MVLD_PAGES_POOL;
}

/* Nobody wants to pay for a huge page there. */
static inline int pages_are_cold(const struct moved_code *moved, uintptr_t start)
{
    return moved->hot_end && start >= moved->hot_end;
}

/* Pages of the pool that are there for certain, aside; or why not. */
long pages_take(struct mvld_image *, size_t size, const char **why);
/* Notes that these are of the pool, or are not. */
void pages_note(struct moved_code *, uintptr_t start, size_t n, int of_pool);
/* 2 MiB aside that can be written get what is at `start`, and take its place.  0, or negative
 * errno: they are still there. */
long pages_replace(struct mvld_image *, uintptr_t start, uintptr_t aside);
/* Why the kernel made no large page of small ones. */
const char *pages_reason(long error);

#endif
