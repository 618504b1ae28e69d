/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/pages.h: shared by moved/pages.c and moved/pages_file.c.
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

/* The complete 2 MiB pages in [start, end). */
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

/* Whether a huge page there is not worth its cost. */
static inline int pages_are_cold(const struct moved_code *moved, uintptr_t start)
{
    return moved->hot_end && start >= moved->hot_end;
}

/* Allocates pages of the pool elsewhere, with certainty; or returns why not. */
long pages_take(struct mvld_image *, size_t size, const char **why);
/* Records whether these are of the pool. */
void pages_note(struct moved_code *, uintptr_t start, size_t n, int of_pool);
/* Copies the content at `start` into 2 MiB of writable memory elsewhere, and moves that over it.  0, or
 * negative errno: nothing was moved. */
long pages_replace(struct mvld_image *, uintptr_t start, uintptr_t aside);
/* Why the kernel did not make a large page of small ones. */
const char *pages_reason(long error);

#endif
