/* SPDX-License-Identifier: MIT
 *
 * identity/identity.h: does the code under test run where it should?
 *
 * RUNS says so of the code that it stands in, RUNS_AT of the code at an address (a program
 * counter of a signal's context).  The environment variable IDENTITY says where it should run:
 * "copies" of the pass concat, or "home", where no code may run in a copy.  Without it nothing
 * is looked at.
 *
 * All copies lie in segments of the library that the pass brings.
 */
#ifndef IDENTITY_H
#define IDENTITY_H

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
    if (!strstr(info->dlpi_name, "/libconcat.so"))
        return 0;
    region->start = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD) {
            end = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
            region->end = end > region->end ? end : region->end;
        }
    return 1;
}

/* Found before main, so that a signal handler may ask. */
static struct identity_region identity_region;

__attribute__((unused, constructor(101))) static void identity_begin(void)
{
    dl_iterate_phdr(identity_find, &identity_region);
}

/* 1: in a copy. */
__attribute__((unused)) static int identity_copied(const void *pc)
{
    uintptr_t at = (uintptr_t)pc;

    return at >= identity_region.start && at < identity_region.end;
}

__attribute__((unused, noinline, noclone)) static void identity_look(const void *pc,
                                                                     const char *function, int line)
{
    const char *wanted = getenv("IDENTITY");
    char text[200];

    if (!wanted || (strcmp(wanted, "copies") == 0) == identity_copied(pc))
        return;
    snprintf(text, sizeof(text), "%s (line %d) does not run where it should, but at %s\n", function,
             line, identity_copied(pc) ? "a copy" : "home");
    if (write(2, text, strlen(text)) < 0)
        _exit(98);
    _exit(99);
}

/* The caller's program counter. */
__attribute__((unused, noinline, noclone)) static const void *identity_here(void)
{
    return __builtin_return_address(0);
}

#define RUNS identity_look(identity_here(), __func__, __LINE__)
#define RUNS_AT(pc) identity_look((const void *)(pc), __func__, __LINE__)

#endif
