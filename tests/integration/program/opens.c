/* SPDX-License-Identifier: MIT
 *
 * opens LIBRARY: a program without anything attributed opens whole.c.
 */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    void *handle = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    int (*seen)(void) = NULL;
    const int *mode = handle ? dlsym(handle, "mode") : NULL;

    if (handle)
        *(void **)&seen = dlsym(handle, "whole_seen");
    if (!seen || !mode)
        return 1;
    printf("mode %d, seen %d\n", *mode, seen());
    return 0;
}
