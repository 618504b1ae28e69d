/* SPDX-License-Identifier: MIT
 *
 * pages_library.c: a library whose code fills several huge pages, and a function in the first of them.
 */
#include "big.h"

/* Linkers put this section before the rest of the code. */
__attribute__((section(".text.unlikely"))) int pages_first(int);

int pages_first(int x)
{
    return 3 * x ^ 0x1234567; /* with room for a jump */
}
