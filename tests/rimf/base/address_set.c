/* SPDX-License-Identifier: MIT
 *
 * Each address is taken once, however many there are, and none twice.  A failure means that two edits
 * change the same place, or that many take long.
 */
#include "rimf/base/address_set.h"

#include "../../check.h"

#include <errno.h>

#define MANY 1000000u

int main(void)
{
    struct rimf_address_set set = {NULL, 0, 0};
    struct rimf_heap heap;

    rimf_heap_init(&heap, &rimf_sys_kernel);
    for (uintptr_t i = 1; i <= MANY; i++)
        CHECK(rimf_address_set_add(&set, &heap, i << (i % 3 * 12)) == 0);
    CHECK(set.n == MANY && set.room <= 4 * MANY);
    for (uintptr_t i = 1; i <= MANY; i += 997)
        CHECK(rimf_address_set_add(&set, &heap, i << (i % 3 * 12)) == -EEXIST);
    rimf_address_set_clear(&set, &heap);
    CHECK(set.n == 0 && rimf_address_set_add(&set, &heap, 1) == 0);
    rimf_heap_destroy(&heap);
    return 0;
}
