/* SPDX-License-Identifier: MIT
 *
 * rimf/image/original.c: maps moved code to original addresses.  All readers of addresses call this, and
 * most processes have no moved code: so it depends only on the list.
 */
#include "rimf/image/original.h"

#include "rimf/base/base.h"
#include "rimf/image/private.h"

#include <sys/mman.h> /* numbers only */

/* May run during any change of the list, on this thread (a signal handler) or another:
 *
 *   - the list is never shorter than the count: read the count first, then the list
 *   - a counted entry does not change, except that its size may become 0
 *   - a failed batch is not counted any more; a reader with the larger count finds in
 *     its entries addresses above all that run, and looks for one below
 */

uintptr_t rimf_original_of(const struct mvld_image *image, uintptr_t address)
{
    const struct moved_code *moved = image ? __atomic_load_n(&image->moved, __ATOMIC_ACQUIRE) : NULL;
    size_t n = moved ? __atomic_load_n(&moved->n, __ATOMIC_ACQUIRE) : 0;
    /* After the count: a longer list is published before it is counted. */
    const struct moved_fragment *list = n ? __atomic_load_n(&moved->list, __ATOMIC_ACQUIRE) : NULL;
    size_t begun = RIMF_BISECT(i, n, list[i].at <= address);
    const struct moved_fragment *last = begun ? &list[begun - 1] : NULL;

    if (!last || address - last->at >= __atomic_load_n(&last->size, __ATOMIC_RELAXED))
        return 0;
    return last->original + (address - last->at);
}

struct mvld_segment rimf_moved_segment(const struct moved_code *moved)
{
    size_t n = __atomic_load_n(&moved->n, __ATOMIC_ACQUIRE);
    const struct moved_fragment *last = __atomic_load_n(&moved->list, __ATOMIC_ACQUIRE) + n - 1;

    return (struct mvld_segment){.start = moved->region.code, .end = rimf_page_up(last->at + last->size),
                                 .prot = PROT_READ | PROT_EXEC};
}

int rimf_has_moved(const struct mvld_image *image, const struct rimf_object *object)
{
    const struct moved_code *moved = __atomic_load_n(&image->moved, __ATOMIC_ACQUIRE);

    return moved && object->moved && object->moved <= __atomic_load_n(&moved->n, __ATOMIC_ACQUIRE);
}
