/* SPDX-License-Identifier: MIT
 *
 * A library whose functions keep their original addresses, because it asks dl_iterate_phdr, and a
 * program (without LIBRARY) that calls one of them by name and another by its address.  It says
 * of each whether it began with a jump, and whether it ran in moved code.  entries.py looks.
 */
#define _GNU_SOURCE
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef void report(void);

void by_name(report *);
void (*by_address(void))(report *);
int phdrs(void);

#ifdef LIBRARY
void by_name(report *r)
{
    r();
    __asm__ volatile("" ::: "memory");
}

static void local(report *r)
{
    r();
    __asm__ volatile("" ::: "memory");
}

void (*by_address(void))(report *)
{
    return local;
}

static int count(struct dl_phdr_info *info, size_t size, void *n)
{
    (void)info;
    (void)size;
    ++*(int *)n;
    return 0;
}

int phdrs(void)
{
    int n = 0;

    dl_iterate_phdr(count, &n);
    return n;
}
#else
#include <dlfcn.h>

static uintptr_t low, high; /* the library's code, in the original */
static const char *who;

static int is_library(struct dl_phdr_info *info, size_t size, void *cookie)
{
    (void)size;
    (void)cookie;
    if (!strstr(info->dlpi_name, "libpart.so"))
        return 0;
    for (size_t i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_flags & PF_X) {
            low = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            high = low + info->dlpi_phdr[i].p_memsz;
        }
    return 1;
}

/* Called from the library. */
static void reported(void)
{
    uintptr_t at = (uintptr_t)__builtin_return_address(0);

    printf("%s runs %s\n", who, at >= low && at < high ? "in the original" : "in moved code");
}

static void look(const char *name, const void *function)
{
    const uint8_t *at = function;

    if ((uintptr_t)at < low || (uintptr_t)at >= high)
        printf("%s: its address is not the original one\n", name);
    if (memcmp(at, "\xf3\x0f\x1e\xfa", 4) == 0)
        at += 4;
    printf("%s begins with %s\n", name, *at == 0xe9 ? "a jump" : "its code");
}

int main(void)
{
    dl_iterate_phdr(is_library, NULL);
    who = "by_name";
    by_name(reported);
    look(who, dlsym(RTLD_DEFAULT, who));
    who = "by_address";
    by_address()(reported);
    look(who, (const void *)(uintptr_t)by_address());
    return phdrs() ? 0 : 1;
}
#endif
