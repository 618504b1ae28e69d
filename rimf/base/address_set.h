/* SPDX-License-Identifier: MIT
 *
 * rimf/base/address_set.h: places that were taken, each once.
 */
#ifndef RIMF_ADDRESS_SET_H
#define RIMF_ADDRESS_SET_H

#include "rimf/base/alloc.h"

struct rimf_address_set { /* zeros: it is empty */
    uintptr_t *at; /* open addressing; 0: free */
    size_t n, room;
};

/* 0; -EEXIST: it is in there; -ENOMEM: as before.  Not for 0. */
int rimf_address_set_add(struct rimf_address_set *, struct rimf_heap *, uintptr_t);
void rimf_address_set_clear(struct rimf_address_set *, struct rimf_heap *);

#endif
