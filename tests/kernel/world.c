/* SPDX-License-Identifier: MIT
 *
 * world.c: the kernel's stand-in.
 */
#include "world.h"

int many __attribute__((multiverse("values", 0, 1))) = 1;
struct settings settings = {0};

MULTIVERSE __attribute__((noinline)) int take(int *lock)
{
    if (many)
        __atomic_fetch_add(lock, 1, __ATOMIC_SEQ_CST);
    return many;
}

MULTIVERSE __attribute__((noinline)) int level(void)
{
    return settings.level ? 10 : 20;
}

int call_take(int *lock)
{
    return take(lock) + 100;
}

int call_level(void)
{
    return level() + 100;
}

int call_through(int *lock)
{
    int (*volatile pointer)(int *) = take;

    return pointer(lock) + 100;
}

__attribute__((section(".init.text"), noinline)) int call_from_init(int *lock)
{
    return take(lock) + 100;
}
