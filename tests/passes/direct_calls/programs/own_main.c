/* SPDX-License-Identifier: MIT
 *
 * Says two results of own.c, or of a library that is opened: its g0.  With -DTAKES it defines one of
 * the functions that own.c calls.
 */
#include <dlfcn.h>
#include <stdio.h>

int f0(int);

#ifdef TAKES
int o3(int x)
{
    return x + 5;
}
#endif

int main(int argc, char **argv)
{
    int (*f)(int) = f0;

    if (argc > 1) {
        void *handle = dlopen(argv[1], RTLD_NOW);

        f = handle ? (int (*)(int))dlsym(handle, "g0") : 0;
        if (!f) {
            puts(dlerror());
            return 1;
        }
    }
    printf("%d %d\n", f(1), f(2));
    return 0;
}
