/* SPDX-License-Identifier: MIT
 *
 * rimf/base/sort.c: heap sort, in place: it needs no memory and no recursion.
 */
#include "rimf/base/sort.h"

#include "rimf/base/base.h"

/* ---- order by address: heap sort, in place */

static uintptr_t key_at(const char *elements, size_t size, size_t i)
{
    return *(const uintptr_t *)(const void *)(elements + i * size);
}

/* Most are single words. */
static inline void move(void *to, const void *from, size_t size)
{
    if (size == sizeof(uintptr_t))
        *(uintptr_t *)to = *(const uintptr_t *)from;
    else
        memcpy(to, from, size);
}

static void sift(char *elements, size_t root, size_t n, size_t size)
{
    _Alignas(8) char moving[RIMF_SORT_MAX];
    uintptr_t key = key_at(elements, size, root);

    move(moving, elements + root * size, size);
    for (size_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && key_at(elements, size, child + 1) > key_at(elements, size, child))
            child++;
        if (key_at(elements, size, child) <= key)
            break;
        move(elements + root * size, elements + child * size, size);
    }
    move(elements + root * size, moving, size);
}

void rimf_sort(void *array, size_t n, size_t size)
{
    char *elements = array;
    _Alignas(8) char last[RIMF_SORT_MAX];
    size_t i = 1;

    while (i < n && key_at(elements, size, i - 1) <= key_at(elements, size, i))
        i++;
    if (i >= n)
        return;
    for (i = n / 2; i-- > 0;)
        sift(elements, i, n, size);
    for (i = n; i-- > 1;) {
        move(last, elements + i * size, size);
        move(elements + i * size, elements, size);
        move(elements, last, size);
        sift(elements, 0, i, size);
    }
}
