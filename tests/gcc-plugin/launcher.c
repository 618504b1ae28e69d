/* SPDX-License-Identifier: MIT
 *
 * launcher.c: runs the main() of a case that was linked as a shared library.
 */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) : NULL;
    int (*entry)(void);
    *(void **)&entry = library ? dlsym(library, "case_main") : NULL;
    if (!entry && library) /* C++ */
        *(void **)&entry = dlsym(library, "_Z9case_mainv");
    if (!entry) {
        fprintf(stderr, "launcher: %s\n", dlerror());
        return 2;
    }
    return entry();
}
