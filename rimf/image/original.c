/* SPDX-License-Identifier: MIT
 *
 * rimf/image/original.c: where code came from.  Whoever reads addresses asks, and most processes
 * have no moved code: so this knows its list alone, and nothing of how it is made.
 */
#include "rimf/image/original.h"

#include "rimf/base/base.h"
#include "rimf/image/private.h"

/* May run in the middle of all that moves code, on this thread (a signal handler) or another:
 *
 *   - the list is longer than what is counted, never shorter: count first, then list
 *   - an entry that was counted once stays as it is, but for its size, which becomes 0
 *   - a batch that failed is not counted any more; who still has the larger count finds in
 *     its entries places behind all that run, and looks for one before them
 */

uintptr_t rimf_original_of(const struct mvld_image *image, uintptr_t address)
{
    const struct moved_code *moved = image ? __atomic_load_n(&image->moved, __ATOMIC_ACQUIRE) : NULL;
    size_t n = moved ? __atomic_load_n(&moved->n, __ATOMIC_ACQUIRE) : 0;
    /* Behind the count: a longer list is published before it is counted. */
    const struct moved_fragment *list = n ? __atomic_load_n(&moved->list, __ATOMIC_ACQUIRE) : NULL;
    size_t begun = RIMF_BISECT(i, n, list[i].at <= address);
    const struct moved_fragment *last = begun ? &list[begun - 1] : NULL;

    if (!last || address - last->at >= __atomic_load_n(&last->size, __ATOMIC_RELAXED))
        return 0;
    return last->original + (address - last->at);
}

int rimf_has_moved(const struct mvld_image *image, const struct rimf_object *object)
{
    const struct moved_code *moved = __atomic_load_n(&image->moved, __ATOMIC_ACQUIRE);

    return moved && object->moved && object->moved <= __atomic_load_n(&moved->n, __ATOMIC_ACQUIRE);
}
