/* SPDX-License-Identifier: MIT
 *
 * The library that the pass of bring.c brings into every program; with $TELL_BROUGHT it reports that it is there.
 */
#include <stdio.h>
#include <stdlib.h>

int brought = 1;

__attribute__((constructor)) static void report(void)
{
    if (getenv("TELL_BROUGHT"))
        fputs("brought\n", stderr);
}
