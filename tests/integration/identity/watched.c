/* SPDX-License-Identifier: MIT
 *
 * A library that is preloaded runs like the others. Where somebody watches calls between objects
 * (LD_AUDIT, LD_PROFILE), all code stays and all calls are seen.
 *
 * A failure means that a tool that watches a program misses what it does.
 *
 * build: libwatched.so -DLIBRARY
 * build: libpreloaded.so -DPRELOADED
 * build: libaudit.so -DAUDIT
 * build: program libwatched.so
 * run:
 * run: LD_PRELOAD=$D/libpreloaded.so
 * run: LD_AUDIT=$D/libaudit.so IDENTITY=original
 * run: LD_PROFILE=libwatched.so LD_PROFILE_OUTPUT=$D IDENTITY=original
 * run: IDENTITY=original direct --audit $D/libaudit.so
 */
#ifdef AUDIT /* not identity.h: a constructor of an auditor's that calls dlsym crashes in glibc 2.31 */
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#else
#include "identity.h"
#endif

int watched(int);

#if defined AUDIT
static int calls;

__attribute__((visibility("default"))) unsigned la_version(unsigned version)
{
    return version;
}

__attribute__((visibility("default"))) unsigned la_objopen(struct link_map *map, Lmid_t id,
                                                           uintptr_t *cookie)
{
    (void)id;
    (void)cookie;
    return strstr(map->l_name, "libwatched") || !*map->l_name ? LA_FLG_BINDTO | LA_FLG_BINDFROM : 0;
}

__attribute__((visibility("default"))) Elf64_Addr
la_x86_64_gnu_pltenter(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to,
                       La_x86_64_regs *registers, unsigned *flags, const char *name, long *frame)
{
    char text[100];
    int n = snprintf(text, sizeof(text), "  audit: %s %d\n", name, ++calls);

    (void)index;
    (void)from;
    (void)to;
    (void)registers;
    (void)flags;
    (void)frame;
    if (write(1, text, (size_t)n) < 0)
        return 0;
    return symbol->st_value;
}
#elif defined PRELOADED
int watched(int n)
{
    RUNS;
    return n + 100;
}
#elif defined LIBRARY
int watched(int n)
{
    RUNS;
    return n + 1;
}
#else
int main(void)
{
    int sum = 0;

    setvbuf(stdout, NULL, _IONBF, 0);
    RUNS;
    for (int i = 0; i < 3; i++)
        sum += watched(i);
    printf("%d\n", sum);
    return 0;
}
#endif
