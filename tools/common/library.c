/* SPDX-License-Identifier: MIT
 *
 * library.c: see library.h.
 */
#include "tools/common/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int library_open(const char *file, const char *const *names, size_t n, void *pointers)
{
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);

    for (size_t i = 0; i < n; i++) {
        void *function = handle ? dlsym(handle, names[i]) : NULL;
        if (!function) {
            fprintf(stderr, "mvld: %s\n", dlerror());
            return -1;
        }
        memcpy((char *)pointers + i * sizeof function, &function, sizeof function);
    }
    return 0;
}
