/* SPDX-License-Identifier: MIT
 *
 * What a program learns of its objects: dl_iterate_phdr, the link map of dlopen(NULL) and
 * of _r_debug, dladdr, dladdr1, dlinfo, _dl_find_object, /proc/self/exe; and that all agree.
 *
 * The libraries that passes preload are left out of the lists.  What it calls, glibc has
 * since 2.35.
 *
 * needs: 2.35
 * covers: dlfcn/tst-dladdr dlfcn/tst-dlinfo-phdr elf/tst-dl_find_object elf/tst-dlmodcount
 *         elf/tst-_dl_addr_inside_object elf/tst-addr1 elf/tst-link-map-contiguous-*
 * build: libfirst.so -DNAME=first
 * build: libsecond.so -DNAME=second libfirst.so
 * build: libopened.so -DNAME=opened libsecond.so
 * build: program libsecond.so
 * run:
 * run: direct
 */
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define STRING(x) #x
#define NAMED(x) STRING(x)
#define JOIN(a, b) a##b
#define FUNCTION(x) JOIN(x, _function)

#ifdef NAME
int FUNCTION(NAME)(void);
int FUNCTION(NAME)(void)
{
    return NAMED(NAME)[0];
}
#else
int second_function(void);

static int hidden(const char *name)
{
    return strstr(name, "libmultiverse") || strstr(name, "libconcat") ||
           strstr(name, "/concat.so");
}

static int show(struct dl_phdr_info *info, size_t size, void *data)
{
    unsigned loads = 0, headers = 0;

    for (int i = 0; i < info->dlpi_phnum; i++) {
        loads += info->dlpi_phdr[i].p_type == PT_LOAD;
        headers += info->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME;
    }
    if (!hidden(info->dlpi_name) && strcmp(info->dlpi_name, "linux-vdso.so.1"))
        printf("%d %s: %u segments, %u eh_frame_hdr, %d %zu\n", (*(int *)data)++, info->dlpi_name,
               loads, headers, info->dlpi_tls_modid != 0, size);
    return 0;
}

static int find(struct dl_phdr_info *info, size_t size, void *data)
{
    struct link_map *map = data;

    (void)size;
    return info->dlpi_addr == map->l_addr && !strcmp(info->dlpi_name, map->l_name);
}

static void maps(struct link_map *map)
{
    int backwards = 0;

    for (struct link_map *m = map, *before = NULL; m; before = m, m = m->l_next) {
        struct dl_find_object found;
        int known = !_dl_find_object(m->l_ld, &found) && found.dlfo_link_map == m;

        if (!hidden(m->l_name))
            printf("map %s: listed %d, found %d\n", m->l_name, dl_iterate_phdr(find, m), known);
        backwards += m->l_prev == before;
    }
    printf("%s\n", backwards > 4 ? "linked backwards" : "not linked backwards");
}

static void address(const char *what, void *at)
{
    Dl_info info = {0}, original = {0};
    struct link_map *map = NULL;
    ElfW(Sym) *symbol = NULL;

    printf("%s: %d", what, dladdr1(at, &info, (void **)&map, RTLD_DL_LINKMAP) != 0);
    printf(" %s %s %d", info.dli_fname ? info.dli_fname : "-",
           info.dli_sname ? info.dli_sname : "-", info.dli_saddr == at);
    printf(" %d", dladdr1(at, &info, (void **)&symbol, RTLD_DL_SYMENT) != 0);
    /* Under concat it is the original address, and `at` perhaps that of moved code. */
    printf(" %d\n", map && symbol &&
                        dladdr((void *)(map->l_addr + symbol->st_value), &original) &&
                        original.dli_sname == info.dli_sname);
}

int main(void)
{
    int n = 0, here;
    void *self = dlopen(NULL, RTLD_LAZY), *opened = dlopen("libopened.so", RTLD_NOW);
    struct link_map *map;

    dlinfo(self, RTLD_DI_LINKMAP, &map);
    dl_iterate_phdr(show, &n);
    printf("%d %d\n", _r_debug.r_map == map, (int)_r_debug.r_state);
    maps(map);
    address("second_function", dlsym(RTLD_DEFAULT, "second_function"));
    address("opened_function", dlsym(opened, "opened_function"));
    address("printf", dlsym(RTLD_DEFAULT, "printf"));
    address("null", NULL);
    printf("stack: %d\n", dladdr(&here, &(Dl_info){0}));
    const ElfW(Phdr) *headers = NULL;

    printf("headers %d\n", dlinfo(opened, RTLD_DI_PHDR, &headers) > 3 && headers);
    dlclose(opened);
    n = 0;
    dl_iterate_phdr(show, &n);
    return second_function() != 's';
}
#endif
