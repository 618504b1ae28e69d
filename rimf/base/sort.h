/* SPDX-License-Identifier: MIT
 *
 * rimf/base/sort.h: sorts elements by address.
 */
#ifndef RIMF_SORT_H
#define RIMF_SORT_H

#include <stddef.h>

#define RIMF_SORT_MAX 64u

/* Sorts `n` elements of `size` bytes, at most RIMF_SORT_MAX, by the address (uintptr_t) at their
 * start.  Cheap if they are already sorted. */
void rimf_sort(void *elements, size_t n, size_t size);

#endif
