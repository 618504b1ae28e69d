/* SPDX-License-Identifier: MIT
 *
 * Calls `caller` (inline.S), says what came of it, and what stands there now.
 */
#include <stdio.h>

int caller(void);

int main(void)
{
    int (*volatile here)(void) = caller; /* where it moved, if it did */

    printf("%d ", here());
    for (int i = 0; i < 80; i++)
        printf("%02x", ((const unsigned char *)here)[i]);
    puts("");
    return 0;
}
