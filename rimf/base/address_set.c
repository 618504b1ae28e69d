/* SPDX-License-Identifier: MIT
 *
 * rimf/base/address_set.c: places that were taken, each once.
 */
#include "rimf/base/address_set.h"

#include <errno.h> /* numbers only */

#define AT_FIRST 64u

/* Where it is, or where it goes. */
static uintptr_t *place(uintptr_t *at, size_t room, uintptr_t address)
{
    size_t i = (size_t)(address * 0x9e3779b97f4a7c15u >> 32);

    while (at[i & (room - 1)] && at[i & (room - 1)] != address)
        i++;
    return &at[i & (room - 1)];
}

static int grow(struct rimf_address_set *set, struct rimf_heap *heap)
{
    size_t room = set->room ? 2 * set->room : AT_FIRST;
    uintptr_t *at = rimf_heap_alloc(heap, room * sizeof *at);

    if (!at)
        return -ENOMEM;
    for (size_t i = 0; i < set->room; i++)
        if (set->at[i])
            *place(at, room, set->at[i]) = set->at[i];
    rimf_heap_release(heap, set->at);
    set->at = at;
    set->room = room;
    return 0;
}

int rimf_address_set_add(struct rimf_address_set *set, struct rimf_heap *heap, uintptr_t address)
{
    uintptr_t *at;

    if (2 * set->n >= set->room && grow(set, heap))
        return -ENOMEM;
    at = place(set->at, set->room, address);
    if (*at)
        return -EEXIST;
    *at = address;
    set->n++;
    return 0;
}

void rimf_address_set_clear(struct rimf_address_set *set, struct rimf_heap *heap)
{
    rimf_heap_release(heap, set->at);
    *set = (struct rimf_address_set){NULL, 0, 0};
}
