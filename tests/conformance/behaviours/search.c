/* SPDX-License-Identifier: MIT
 *
 * Where libraries are looked for: DT_RPATH, LD_LIBRARY_PATH, DT_RUNPATH, $ORIGIN, and
 * what dlinfo tells of it.  Four libraries of one name say from which folder they are.
 *
 * covers: elf/tst-pathopt elf/tst-dlopenrpath elf/origtest elf/tst-sonamemove-dlopen
 *         dlfcn/tst-dlinfo elf/tst-noload
 * build: rpath/libplace.so -DPLACE=rpath -Wl,-soname,libplace.so
 * build: runpath/libplace.so -DPLACE=runpath -Wl,-soname,libplace.so
 * build: env/libplace.so -DPLACE=env -Wl,-soname,libplace.so
 * build: runpath/liborigin.so -DORIGIN -Wl,-rpath,$ORIGIN -Wl,--enable-new-dtags
 * build: libplain.so -DORIGIN
 * build: program -Wl,-rpath,$ORIGIN/runpath -Wl,--enable-new-dtags runpath/libplace.so
 * build: old -Wl,-rpath,$ORIGIN/rpath -Wl,--disable-new-dtags rpath/libplace.so
 * run: LD_LIBRARY_PATH=
 * run: LD_LIBRARY_PATH=$D/env
 * run: LD_LIBRARY_PATH=$D/absent:$D/env/:
 * run: program=old LD_LIBRARY_PATH=
 * run: program=old LD_LIBRARY_PATH=$D/env
 * run: LD_LIBRARY_PATH=$ORIGIN/env
 */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STRING(x) #x
#define NAMED(x) STRING(x)

#if defined PLACE
const char *place(void);
const char *place(void)
{
    return NAMED(PLACE);
}
#elif defined ORIGIN
void *open_from_here(const char *name);
void *open_from_here(const char *name)
{
    return dlopen(name, RTLD_LAZY); /* the caller's DT_RUNPATH counts */
}
#else
const char *place(void);

static void show(const char *name)
{
    void *h = dlopen(name, RTLD_LAZY);
    struct link_map *map;
    char origin[4096];

    if (!h) {
        printf("%s: %s\n", name, dlerror());
        return;
    }
    dlinfo(h, RTLD_DI_LINKMAP, &map);
    dlinfo(h, RTLD_DI_ORIGIN, origin);
    printf("%s: %s from %s\n", name, map->l_name, origin);
    void *(*open_from)(const char *) = (void *(*)(const char *))dlsym(h, "open_from_here");
    void *inner = open_from ? open_from("libplace.so") : NULL;

    printf("  opens libplace.so: %s\n", inner ? "yes" : open_from ? dlerror() : "-");
}

int main(void)
{
    void *self = dlopen(NULL, RTLD_LAZY);
    Dl_serinfo size, *info;

    printf("linked: %s\n", place());
    show("liborigin.so");
    show("runpath/liborigin.so");
    show("./libplain.so");
    show("$ORIGIN/libplain.so");
    show("${ORIGIN}/env/libplace.so");
    if (dlinfo(self, RTLD_DI_SERINFOSIZE, &size))
        return 1;
    info = malloc(size.dls_size);
    dlinfo(self, RTLD_DI_SERINFOSIZE, info);
    if (dlinfo(self, RTLD_DI_SERINFO, info))
        return 1;
    for (unsigned i = 0; i < info->dls_cnt; i++)
        printf("searches %s %x\n", info->dls_serpath[i].dls_name, info->dls_serpath[i].dls_flags);
    return 0;
}
#endif
