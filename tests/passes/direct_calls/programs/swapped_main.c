/* SPDX-License-Identifier: MIT */
#include <stdio.h>

int first(void), second(void);

int main(void)
{
    printf("%d %d\n", first(), second());
    return 0;
}
