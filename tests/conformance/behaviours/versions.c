/* SPDX-License-Identifier: MIT
 *
 * Symbol versions: an old program keeps the old definition, dlsym finds the default,
 * dlvsym each; a library without the wanted version is refused with a sentence.
 *
 * covers: elf/tst-next-ver elf/tst-sonamemove-* elf/reldep* elf/resolvfail
 * file: map V1 { global: f; local: *; }; V2 { global: f; g; } V1;
 * file: map1 V1 { global: f; local: *; };
 * build: old/libversioned.so -DOLD -Wl,--version-script,$D/map1 -Wl,-soname,libversioned.so
 * build: new/libversioned.so -DNEW -Wl,--version-script,$D/map -Wl,-soname,libversioned.so
 * build: libuser.so -DUSER old/libversioned.so
 * build: program new/libversioned.so libuser.so
 * run: LD_LIBRARY_PATH=$D/new:$D
 * run: LD_LIBRARY_PATH=$D/old:$D
 * run: LD_LIBRARY_PATH=$D/new:$D LD_BIND_NOW=1
 */
#include <dlfcn.h>
#include <stdio.h>

#if defined OLD
int f(void);
int f(void)
{
    return 10;
}
#elif defined NEW
__asm__(".symver f_one, f@V1\n.symver f_two, f@@V2");
int f_one(void);
int f_two(void);
int g(void);
int f_one(void)
{
    return 1;
}

int f_two(void)
{
    return 2;
}

int g(void)
{
    return 22;
}
#elif defined USER
int f(void);
int old_f(void);
int old_f(void)
{
    return f();
}
#else
int f(void);
int g(void);
int old_f(void);

static void show(void *f, const char *what)
{
    const char *error = dlerror();

    printf("%s: ", what);
    if (f)
        printf("%d\n", ((int (*)(void))f)());
    else
        printf("%s\n", error);
}

int main(void)
{
    void *h = dlopen("libversioned.so", RTLD_LAZY);

    printf("%d %d %d\n", f(), g(), old_f());
    show(dlsym(h, "f"), "default");
    show(dlvsym(h, "f", "V1"), "V1");
    show(dlvsym(h, "f", "V2"), "V2");
    show(dlvsym(h, "f", "V3"), "V3");
    show(dlvsym(RTLD_DEFAULT, "f", "V1"), "default scope, V1");
    show(dlvsym(RTLD_NEXT, "f", "V1"), "next, V1");
    show(dlvsym(h, "g", "V1"), "g V1");
    return 0;
}
#endif
