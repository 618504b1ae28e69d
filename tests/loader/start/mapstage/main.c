/* SPDX-License-Identifier: MIT
 *
 * Calls a library, and opens another one, or says why it cannot.
 */
#include <dlfcn.h>
#include <stdio.h>
int first(void);
int main(int argc, char **argv)
{
    void *late = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;

    printf("first %d\n", first());
    if (argc > 1)
        puts(late ? "late" : dlerror());
    return 0;
}
