/* SPDX-License-Identifier: MIT
 *
 * A kernel in which the n-th call fails, for tests of stage 0's functions.
 */
#ifndef TESTS_LOADER_KERNEL_H
#define TESTS_LOADER_KERNEL_H

#include "../check.h"
#include "loader/loader.h"
#include "loader/start/rooms.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct kernel {
    struct rimf_sys sys;
    int calls;
    int fail_at;       /* the call that fails, counted from 1; 0: none */
    int fail_from;     /* this one and all later ones of `number`; 0: none */
    long number;
};

static inline long kernel_call(const struct rimf_sys *sys, long nr, long a, long b, long c,
                               long d, long e, long f)
{
    struct kernel *kernel = (struct kernel *)sys;

    kernel->calls++;
    if (kernel->calls == kernel->fail_at)
        return -EIO;
    if (kernel->fail_from && nr == kernel->number && kernel->calls >= kernel->fail_from)
        return -EPERM;
    return rimf_syscall(nr, a, b, c, d, e, f);
}

static inline struct kernel kernel_make(int fail_at)
{
    return (struct kernel){.sys = {kernel_call}, .fail_at = fail_at};
}

/* Lines of /proc/self/maps that lie in [start, end), or all; and their number. */
static inline size_t maps(char *to, size_t size, uintptr_t start, uintptr_t end)
{
    FILE *file = fopen("/proc/self/maps", "r");
    char line[512];
    size_t n = 0;

    *to = '\0';
    while (fgets(line, sizeof line, file)) {
        unsigned long at = strtoul(line, NULL, 16);

        if (at < start || at >= end)
            continue;
        n++;
        if (strlen(to) + strlen(line) < size)
            strcat(to, line);
    }
    fclose(file);
    return n;
}

#endif
