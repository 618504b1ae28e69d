/* SPDX-License-Identifier: MIT
 *
 * module.c: the stand-in's module.
 */
#include "world.h"

bool traced MULTIVERSE = true;

MULTIVERSE __attribute__((noinline)) int trace(void)
{
    return traced ? 1 : 2;
}

MULTIVERSE __attribute__((noinline)) int module_take(int *lock)
{
    return many ? ++*lock : 0;
}

static int doubled MULTIVERSE = 1;

static MULTIVERSE __attribute__((noinline)) int ask_doubled(void)
{
    return doubled;
}

int call_module_doubled(void)
{
    return ask_doubled() + 100;
}

int call_take_in_module(int *lock)
{
    return take(lock) + 100;
}

int call_trace(void)
{
    return trace() + 100;
}

int call_module_take(int *lock)
{
    return module_take(lock) + 100;
}
