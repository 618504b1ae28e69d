/* SPDX-License-Identifier: MIT
 *
 * Which definition a name finds: RTLD_DEFAULT, RTLD_NEXT, a handle, RTLD_LOCAL and
 * RTLD_GLOBAL, RTLD_DEEPBIND, a second look by dlopen(NULL); and what dlerror says.
 *
 * covers: dlfcn/default dlfcn/failtest dlfcn/errmsg1 dlfcn/glrefmain dlfcn/bug-dlsym1 elf/next
 *         elf/global elf/lateglobal elf/tst-deep1 elf/tst-global* elf/tst-dlsym-error elf/noload
 * build: libglobal.so -DNAME=global -DNEXT
 * build: liblocal.so -DNAME=local
 * build: libdeep.so -DNAME=deep
 * build: program -rdynamic libglobal.so
 * run:
 * run: LD_BIND_NOW=1
 */
#include <dlfcn.h>
#include <stdio.h>

#define STRING(x) #x
#define NAMED(x) STRING(x)

#ifdef NAME
const char *who(void)
{
    return NAMED(NAME);
}

const char *only_here(void)
{
    return "only in " NAMED(NAME);
}

const char *ask(void) /* through the PLT, so interposed unless bound deeply */
{
    return who();
}

#ifdef NEXT
const char *next(void)
{
    const char *(*f)(void) = dlsym(RTLD_NEXT, "who");

    return f ? f() : "none";
}
#endif
#else
const char *next(void);
const char *ask(void);

const char *who(void)
{
    return "program";
}

static void show(const char *what, void *scope, const char *name)
{
    const char *(*f)(void) = dlsym(scope, name);
    const char *error = dlerror();

    printf("%s %s: %s\n", what, name, f ? f() : error);
}

int main(void)
{
    void *local, *deep, *self = dlopen(NULL, RTLD_LAZY);
    const char *(*next_here)(void) = dlsym(RTLD_NEXT, "who");

    printf("ask: %s, next of the library: %s, next: %s\n", ask(), next(), next_here());
    show("default", RTLD_DEFAULT, "who");
    show("self", self, "only_here");
    local = dlopen("liblocal.so", RTLD_NOW | RTLD_LOCAL);
    deep = dlopen("libdeep.so", RTLD_LAZY | RTLD_DEEPBIND);
    if (!local || !deep)
        return 1;
    show("local", local, "who");
    show("local", local, "ask");
    show("deep", deep, "who");
    show("deep", deep, "ask");
    show("default", RTLD_DEFAULT, "only_here");
    show("local", local, "missing");
    show("default", RTLD_DEFAULT, "missing");
    show("self", self, "missing");
    printf("%d %d\n", dlopen("liblocal.so", RTLD_NOLOAD | RTLD_GLOBAL | RTLD_LAZY) == local,
           dlopen("libnone.so", RTLD_NOLOAD | RTLD_LAZY) == NULL);
    dlerror();
    printf("%s\n", dlopen("libabsent.so", RTLD_LAZY) ? "?" : dlerror());
    printf("%s\n", dlopen("liblocal.so", 0) ? "?" : dlerror());
    printf("%s\n", dlerror() ? "?" : "no error left");
    return dlclose(local) || dlclose(deep) || dlclose(self);
}
#endif
