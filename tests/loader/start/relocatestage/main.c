/* SPDX-License-Identifier: MIT
 *
 * Prints what symbols lead to, in a call, through a library, by a pointer, by dlsym.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
int answer(void), through(void), other(void);
int (*pointer)(void) = answer;
int main(int argc, char **argv)
{
    int (*found)(void) = dlsym(RTLD_DEFAULT, "answer");

    if (argc > 1) {
        void *late = dlopen(argv[1], RTLD_NOW);
        int (*call)(void) = late ? dlsym(late, "late") : NULL;

        printf("%d\n", call ? call() : -1);
        return 0;
    }
    printf("%d %d %d %d %d\n", answer(), through(), pointer(), found(), other());
    return 0;
}
