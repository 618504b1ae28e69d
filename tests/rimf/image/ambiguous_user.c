/* SPDX-License-Identifier: MIT
 *
 * Calls, through an entry that is never bound, what another library defines.
 */
#include <stdint.h>

int shared_name(void);
uintptr_t entry_of_shared_name(void);

uintptr_t entry_of_shared_name(void)
{
    uintptr_t entry;

    __asm__("lea shared_name@PLT(%%rip), %0" : "=r"(entry));
    return entry;
}
