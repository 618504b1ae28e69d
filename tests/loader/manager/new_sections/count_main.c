/* SPDX-License-Identifier: MIT
 *
 * A program that makes CALLS calls into its library, and waits.
 */
#include <stdio.h>

int called(int last);

int main(void)
{
    int frames = 0;

    for (int i = 0; i < CALLS; i++)
        frames = called(i == CALLS - 1);
    printf("%d\n", frames);
    fflush(stdout);
    return getchar() == EOF;
}
