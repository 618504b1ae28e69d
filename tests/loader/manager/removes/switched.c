/* SPDX-License-Identifier: MIT
 *
 * switched.c: only the plugin's descriptors name the variants of `greet`.
 */
#include <multiverse.h>
#include <stdio.h>

__attribute__((multiverse)) _Bool polite;

__attribute__((multiverse)) void greet(const char *name)
{
    if (polite)
        printf("Good morning, %s.\n", name);
    else
        printf("hey %s\n", name);
}

int main(void)
{
    polite = 1;
    multiverse_commit();
    greet("Ada");
    multiverse_revert();
    greet("Ada");
    return 0;
}
