/* SPDX-License-Identifier: MIT
 *
 * Copy relocations, addresses of functions taken on both sides, protected and weak symbols,
 * -Bsymbolic, both hash styles, lazy binding of a function that is never called.
 *
 * covers: elf/lateglobal elf/resolvfail elf/tst-absolute-* elf/tst-dl-hash elf/multiload
 *         elf/restest? dlfcn/bug-dlopen1
 * build: libgnu.so -DLIBRARY=1 -Wl,--hash-style=gnu
 * build: libsysv.so -DLIBRARY=2 -Wl,--hash-style=sysv -Wl,-Bsymbolic
 * build: libholes.so -DHOLES -Wl,-z,lazy
 * build: program libgnu.so libsysv.so -rdynamic
 * build: nopie libgnu.so libsysv.so -no-pie -fno-pie -Wl,-z,lazy
 * build: reversed libsysv.so libgnu.so -no-pie -fno-pie
 * run:
 * run: LD_BIND_NOW=1
 * run: program=nopie
 * run: program=nopie LD_BIND_NOW=1
 * run: program=reversed
 * run: LD_BIND_NOT=1
 */
#include <dlfcn.h>
#include <stdio.h>

#ifdef LIBRARY
int data = LIBRARY;
int table[20] = {LIBRARY, LIBRARY * 2};
int which(void)
{
    return LIBRARY;
}

__attribute__((weak)) int weak(void);
__attribute__((weak)) int weak(void)
{
    return LIBRARY * 10;
}

__attribute__((visibility("protected"))) int guarded(void);
int guarded(void)
{
    return LIBRARY * 100;
}

#define JOIN(a, b) a##b
#define NAME(x) JOIN(seen_by_, x)
struct seen {
    int (*which)(void);
    int *data;
    int called;
};
struct seen NAME(LIBRARY)(void);
struct seen NAME(LIBRARY)(void)
{
    return (struct seen){which, &data, which() + weak() + guarded() + table[1] + data};
}
#elif defined HOLES
int nowhere(void);
__attribute__((weak)) int perhaps(void);
int holes(int call);
int holes(int call)
{
    return call ? nowhere() : perhaps ? perhaps() : 77;
}
#else
extern int data, table[20];
int which(void);
__attribute__((weak)) int absent(void);
struct seen {
    int (*which)(void);
    int *data;
    int called;
};
struct seen seen_by_1(void), seen_by_2(void);

int main(void)
{
    struct seen one = seen_by_1(), two = seen_by_2();
    void *h;

    data += 5;
    printf("%d %d %d %d\n", data, table[0], table[1], which());
    printf("%d %d %d %d\n", one.which == which, one.data == &data,
           two.which == which, two.data == &data);
    printf("%d %d %d %d\n", one.called, two.called, *one.data, *two.data);
    printf("%d %d\n", absent != NULL, (void *)dlsym(RTLD_DEFAULT, "which") == (void *)which);
    h = dlopen("libholes.so", RTLD_LAZY);
    printf("%d\n", h ? ((int (*)(int))dlsym(h, "holes"))(0) : -1);
    printf("%s\n", h && !dlclose(h) && dlopen("libholes.so", RTLD_NOW) ? "?" : dlerror());
    h = dlopen("libholes.so", RTLD_LAZY);
    fflush(stdout);
    return h ? ((int (*)(int))dlsym(h, "holes"))(1) : 0; /* ends here, with a message */
}
#endif
