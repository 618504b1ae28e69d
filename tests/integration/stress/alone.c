/* SPDX-License-Identifier: MIT */
#include <multiverse.h>

__attribute__((multiverse("values", 0, 1, 2))) int alone_mode;

__attribute__((multiverse)) int alone(void)
{
    return alone_mode == 1 ? 1 : alone_mode == 2 ? 2 : 0;
}

int alone_call(void);
int alone_call(void)
{
    return alone();
}
