/* SPDX-License-Identifier: MIT
 *
 * rimf/base/address_set.h: a set of addresses, with a number for each.
 */
#ifndef RIMF_ADDRESS_SET_H
#define RIMF_ADDRESS_SET_H

#include "rimf/base/alloc.h"

#include <errno.h> /* numbers only */

struct rimf_address_set { /* zeros: the empty set */
    uintptr_t *at; /* open addressing; 0: free; the numbers follow */
    size_t n, room;
};

#define RIMF_ADDRESS_SET_FIRST 64u

/* The element of the address, or the one to insert it at. */
static inline uintptr_t *rimf_address_set_place(uintptr_t *at, size_t room, uintptr_t address)
{
    size_t i = (size_t)(address * 0x9e3779b97f4a7c15u >> 32);

    while (at[i & (room - 1)] && at[i & (room - 1)] != address)
        i++;
    return &at[i & (room - 1)];
}

static inline uint32_t *rimf_address_set_numbers(uintptr_t *at, size_t room)
{
    return (uint32_t *)(at + room);
}

/* The number of the address, initially 0; NULL: not in the set. */
static inline uint32_t *rimf_address_set_find(const struct rimf_address_set *set, uintptr_t address)
{
    uintptr_t *at = set->n ? rimf_address_set_place(set->at, set->room, address) : NULL;

    return at && *at ? &rimf_address_set_numbers(set->at, set->room)[at - set->at] : NULL;
}

static inline int rimf_address_set_grow(struct rimf_address_set *set, struct rimf_heap *heap)
{
    size_t room = set->room ? 2 * set->room : RIMF_ADDRESS_SET_FIRST;
    uintptr_t *at = rimf_heap_alloc(heap, room * (sizeof *at + sizeof(uint32_t))), *place;

    if (!at)
        return -ENOMEM;
    for (size_t i = 0; i < set->room; i++) {
        if (!set->at[i])
            continue;
        place = rimf_address_set_place(at, room, set->at[i]);
        *place = set->at[i];
        rimf_address_set_numbers(at, room)[place - at] = rimf_address_set_numbers(set->at, set->room)[i];
    }
    rimf_heap_release(heap, set->at);
    set->at = at;
    set->room = room;
    return 0;
}

/* Returns 0; -EEXIST: it is in the set; -ENOMEM: the set is unchanged.  The address must not be 0. */
static inline int rimf_address_set_add(struct rimf_address_set *set, struct rimf_heap *heap, uintptr_t address)
{
    uintptr_t *at;

    if (2 * set->n >= set->room && rimf_address_set_grow(set, heap))
        return -ENOMEM;
    at = rimf_address_set_place(set->at, set->room, address);
    if (*at)
        return -EEXIST;
    *at = address;
    set->n++;
    return 0;
}

static inline void rimf_address_set_clear(struct rimf_address_set *set, struct rimf_heap *heap)
{
    rimf_heap_release(heap, set->at);
    *set = (struct rimf_address_set){NULL, 0, 0};
}

#endif
