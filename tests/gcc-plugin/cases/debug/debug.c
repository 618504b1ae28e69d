/* SPDX-License-Identifier: MIT */
#include <multiverse.h>
#include <stdbool.h>
#include <stdio.h>
#define MV __attribute__((multiverse))
#define KEEP __attribute__((noinline, noclone, noipa))

MV bool config;
MV int (*pointer)(int);
KEEP int do_a(int k) { return k + 1; }
KEEP int do_b(int k) { return k + 2; }
KEEP int behind(int k) { return do_b(k) - 1; }
MV int foo(int x)
{
    int local = x * 2;
    if (config)
        local += do_a(local);
    else
        local += do_b(local);
    return local;
}
KEEP void committed(void) { __asm__ volatile(""); }
KEEP int through(int x) { return pointer(x) + 1; }

int main(int argc, char **argv)
{
    config = argc > 1;
    pointer = behind;
    if (argc > 2 || multiverse_commit() < 0)
        return 2;
    committed();
    return foo(argc) + through(argc) == 100;
}
