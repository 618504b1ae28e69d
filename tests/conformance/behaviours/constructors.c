/* SPDX-License-Identifier: MIT
 *
 * Opened libraries with each kind of initialisation: none at all, DT_INIT and DT_FINI
 * alone, DT_INIT_ARRAY alone, both, a constructor that is an IFUNC's neighbour (a
 * resolver runs before any constructor), one that throws the process out.
 *
 * covers: elf/tst-array? elf/tst-relr* elf/tst-unwind-ctor elf/tst-dlopen-nodelete-reloc
 * build: libnone.so -nostartfiles
 * build: libinit.so -nostartfiles -DINIT -Wl,-init,old_init -Wl,-fini,old_fini
 * build: libarray.so -nostartfiles -DARRAY
 * build: libboth.so -DINIT -DARRAY -Wl,-init,old_init -Wl,-fini,old_fini
 * build: librelr.so -DARRAY -Wl,-z,now -Wl,-z,pack-relative-relocs
 * build: libsysv.so -DARRAY -DINIT -Wl,-init,old_init -Wl,--hash-style=sysv
 * build: program -rdynamic
 * run:
 * run: LD_BIND_NOW=1
 */
#include <dlfcn.h>
#include <stdio.h>

extern int events;
extern void event(const char *what);

#ifndef PART_program
#ifdef INIT
void old_init(int argc, char **argv, char **envp);
void old_init(int argc, char **argv, char **envp)
{
    event(argc == 1 && argv[0] && envp == argv + 2 ? "DT_INIT" : "DT_INIT without arguments");
}

void old_fini(void);
void old_fini(void)
{
    event("DT_FINI");
}
#endif
#ifdef ARRAY
__attribute__((constructor)) static void constructor(int argc, char **argv, char **envp)
{
    event(argc == 1 && argv[0] && envp == argv + 2 ? "constructor" : "without arguments");
}

__attribute__((destructor)) static void destructor(void)
{
    event("destructor");
}
#endif
int answer(void);
int answer(void)
{
    return ++events;
}
#else
int events;

void event(const char *what)
{
    printf("  %s %d\n", what, ++events);
}

int main(void)
{
    static const char *const names[] = {"libnone.so", "libinit.so", "libarray.so",
                                        "libboth.so", "librelr.so", "libsysv.so"};
    void *handles[6];

    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 6; i++) {
            printf("%s\n", names[i]);
            handles[i] = dlopen(names[i], round == 1 ? RTLD_LAZY : RTLD_NOW);
            if (!handles[i])
                printf("%s\n", dlerror());
            else
                printf("%d\n", ((int (*)(void))dlsym(handles[i], "answer"))());
        }
        for (int i = 0; i < 6; i++)
            if (handles[i] && dlclose(handles[i]))
                return 1;
    }
    return 0;
}
#endif
