/* SPDX-License-Identifier: MIT */
#include "stress.h"

__attribute__((multiverse)) int value(void)
{
    if (mode == 0)
        return 10;
    if (mode == 1)
        return 11;
    return mode == 2 ? 12 : 99;
}

__attribute__((multiverse)) unsigned mixed(unsigned x)
{
    if (mode == 0)
        return x * 3;
    if (mode == 1)
        return x * 4;
    return mode == 2 ? x * 5 : 0;
}

__attribute__((multiverse)) void bump(int *p)
{
    if (mode == 1)
        ++*p;
}

unsigned long wide = 0x0101010101010101;
unsigned narrow = 0x01010101;

int hook_0(void)
{
    return 20;
}

int hook_1(void)
{
    return 21;
}

int hook_2(void)
{
    return 22;
}

CALLERS(oneof)
