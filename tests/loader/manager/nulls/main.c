/* SPDX-License-Identifier: MIT
 *
 * Opens a library and closes it.
 */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    void *late = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    int (*function)(int) = late ? (int (*)(int))dlsym(late, "late_function") : NULL;

    printf("late %d\n", function ? function(1) : -1);
    return late ? dlclose(late) : 1;
}
