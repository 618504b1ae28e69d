/* SPDX-License-Identifier: MIT
 *
 * identity/identity.h: does the code under test run where it should?
 *
 * RUNS says so of the code that it stands in, RUNS_AT of the code at an address (a program
 * counter of a signal's context).  The environment variable IDENTITY says where it should run:
 * "moved", by the pass concat, or "original", where no moved code may run.  Without it nothing
 * is looked at.  Each place is looked at once.
 *
 * All moved code lies in segments of the library that the pass brings, whose name is that of the
 * snapshot's file where they come from one.
 */
#ifndef IDENTITY_H
#define IDENTITY_H

#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct identity_region {
    uintptr_t start, end;
};

__attribute__((unused)) static int identity_find(struct dl_phdr_info *info, size_t size, void *to)
{
    struct identity_region *region = (struct identity_region *)to;
    uintptr_t end;

    (void)size;
    if (!strstr(info->dlpi_name, "/libconcat.so") && !strstr(info->dlpi_name, "/concat.so"))
        return 0;
    region->start = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD) {
            end = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
            region->end = end > region->end ? end : region->end;
        }
    return 1;
}

/* Found before main, so that a signal handler may ask.  Through dlsym: the addresses of an
 * object that imports dl_iterate_phdr stay where they are, and these should not for our sake. */
static struct identity_region identity_region;

__attribute__((unused, constructor(101))) static void identity_begin(void)
{
    void *symbol = dlsym(RTLD_DEFAULT, "dl_iterate_phdr");
    int (*each)(int (*)(struct dl_phdr_info *, size_t, void *), void *);

    memcpy(&each, &symbol, sizeof each);
    each(identity_find, &identity_region);
}

/* 1: in moved code. */
__attribute__((unused)) static int identity_moved(const void *pc)
{
    uintptr_t at = (uintptr_t)pc;

    return at >= identity_region.start && at < identity_region.end;
}

/* Places of this object that were looked at: those in the original, and those in moved code. */
static int identity_places[2];

__attribute__((unused, noinline, noclone)) static void identity_look(const void *pc,
                                                                     const char *function, int line)
{
    const char *wanted = getenv("IDENTITY");
    int moved = identity_moved(pc), *n = identity_places;
    char text[200];

    if (!wanted || !*wanted)
        return;
    n[moved]++;
    /* A function into whose first bytes something may jump runs in the original: a few do. */
    if (strcmp(wanted, "moved") ? !moved : moved || n[0] <= 1 + n[1] / 4)
        return;
    snprintf(text, sizeof(text), "%s (line %d) does not run where it should, but at %s\n", function,
             line, moved ? "moved code" : "original");
    if (write(2, text, strlen(text)) < 0)
        _exit(98);
    _exit(99);
}

/* The caller's program counter. */
__attribute__((unused, noinline, noclone)) static const void *identity_here(void)
{
    return __builtin_return_address(0);
}

#define IDENTITY_ONCE(pc) \
    do { \
        static char looked_at; \
        if (!__atomic_exchange_n(&looked_at, 1, __ATOMIC_RELAXED)) \
            identity_look(pc, __func__, __LINE__); \
    } while (0)
#define RUNS IDENTITY_ONCE(identity_here())
#define RUNS_AT(pc) IDENTITY_ONCE((const void *)(pc))

#endif
