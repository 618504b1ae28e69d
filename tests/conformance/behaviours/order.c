/* SPDX-License-Identifier: MIT
 *
 * The order of constructors and destructors: preinit, dependencies first, priorities,
 * dlopen within a constructor, atexit of libraries, dlclose, _exit by exit().  glibc honours
 * one DF_1_INITFIRST object; before 2.34 libpthread is one, and libmultiverse brings it.
 *
 * needs: 2.34
 * covers: elf/order elf/order2 elf/initfirst elf/constload1 elf/dblload elf/tst-initorder*
 *         elf/tst-dso-ordering* elf/tst-main1 dlfcn/bug-atexit* dlfcn/tstatexit
 *         dlfcn/tstcxaatexit
 * build: libc3.so -DLIB=c3
 * build: libb2.so -DLIB=b2 libc3.so
 * build: liba1.so -DLIB=a1 libb2.so
 * build: libe5.so -DLIB=e5 -Wl,-z,initfirst
 * build: liblate.so -DLIB=late -DOPENS=libe5.so libb2.so
 * build: program liba1.so libc3.so
 * run:
 * run: LD_PRELOAD=$D/libe5.so
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define STRING(x) #x
#define NAMED(x) STRING(x)
#ifndef LIB
#define LIB program
#endif

static void at_exit(void)
{
    puts(NAMED(LIB) " atexit");
}

__attribute__((constructor(101))) static void early(int argc, char **argv, char **envp)
{
    printf("%s early %d %s %s\n", NAMED(LIB), argc, argv[1] ? argv[1] : "-",
           envp == environ && envp[0] ? "environment" : "no environment");
}

__attribute__((constructor)) static void constructor(void)
{
    atexit(at_exit);
    puts(NAMED(LIB) " constructor");
#ifdef OPENS
    printf("%s opens: %d\n", NAMED(LIB), dlopen(NAMED(OPENS), RTLD_LAZY) != NULL);
#endif
}

__attribute__((destructor)) static void destructor(void)
{
    puts(NAMED(LIB) " destructor");
}

__attribute__((destructor(101))) static void last(void)
{
    puts(NAMED(LIB) " last");
}

#ifdef PART_program
static void preinit(int argc, char **argv, char **envp)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    printf("preinit %d %d\n", argc, envp == argv + argc + 1);
}

__attribute__((section(".preinit_array"), used)) static void (*const preinits[])(int, char **,
                                                                               char **) = {preinit};

int main(void)
{
    void *late = dlopen("liblate.so", RTLD_NOW), *again = dlopen("liblate.so", RTLD_NOW);

    printf("main %d\n", late && late == again);
    dlclose(late);
    puts("closed once");
    dlclose(again);
    puts("closed twice");
    late = dlopen("liblate.so", RTLD_NOW);
    exit(late ? 3 : 4);
}
#endif
