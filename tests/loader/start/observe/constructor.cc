// SPDX-License-Identifier: MIT
//
// A library for unwind.cc.
#include <cstdio>

extern "C" void constructed(const char *what);

__attribute__((constructor)) static void constructor()
{
    try {
        constructed("the library");
    } catch (char) {
        puts("caught inside");
    }
}
