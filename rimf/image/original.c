/* SPDX-License-Identifier: MIT
 *
 * rimf/image/original.c: where code came from.  Whoever reads addresses asks, and most processes
 * have no moved code: so this knows its list alone, and nothing of how it is made.
 */
#include "rimf/image/original.h"
#include "rimf/image/private.h"

/* May run in the middle of all that moves code, on this thread (a signal handler) or another:
 *
 *   - the list is longer than what is counted, never shorter: count first, then list
 *   - an entry that was counted once stays as it is, but for its size, which becomes 0
 *   - a batch that failed is not counted any more; who still has the larger count finds in
 *     its entries places behind all that run, and looks for one before them
 */

/* How many of the n begin at or before the address. */
static size_t begun_before(const struct moved_fragment *list, size_t n, uintptr_t address)
{
    size_t low = 0, high = n;

    while (low < high) { /* the last that begins at or before `address` */
        size_t middle = low + (high - low) / 2;

        if (list[middle].at <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uintptr_t rimf_original_of(const struct mvld_image *image, uintptr_t address)
{
    const struct moved_code *moved = __atomic_load_n(&image->moved, __ATOMIC_ACQUIRE);
    size_t n = moved ? __atomic_load_n(&moved->n, __ATOMIC_ACQUIRE) : 0;
    /* Behind the count: a longer list is published before it is counted. */
    const struct moved_fragment *list = n ? __atomic_load_n(&moved->list, __ATOMIC_ACQUIRE) : NULL;
    size_t low = begun_before(list, n, address);

    if (!low || address - list[low - 1].at >= __atomic_load_n(&list[low - 1].size, __ATOMIC_RELAXED))
        return 0;
    return list[low - 1].original + (address - list[low - 1].at);
}
