/* SPDX-License-Identifier: MIT
 *
 * main.c: prints what the library says; with a name, what its function of that name says, which dlsym finds.
 */
#include <dlfcn.h>
#include <stdio.h>

int used(int n), (*take(void))(int);
extern int (*volatile pointer)(int);

int main(int argc, char **argv)
{
    int (*found)(int) = argc > 1 ? (int (*)(int))dlsym(RTLD_DEFAULT, argv[1]) : used;

    printf("%d %d %d\n", used(3), take()(3), pointer(3));
    fflush(stdout);
    return !found || found(4) < 0;
}
