/* SPDX-License-Identifier: MIT
 *
 * loader/process/limits.c: limits on address space.
 */
#include "loader/loader.h"

#include "loader/process/process.h"

#include <sys/resource.h> /* numbers only */

/* 0: no program can start with such a limit. */
static uint64_t space(struct loader *l)
{
    struct rlimit limit;

    if (!l->space)
        l->space = SYS6(l->sys, SYS_prlimit64, 0, RLIMIT_AS, NULL, &limit, 0, 0) ? SPACE_SHORT : limit.rlim_cur;
    return l->space;
}

/* If address space is limited, a library of hundreds of MB cannot be mapped, and the host loader
 * reports this on standard error; or the program gets too little. */
int space_is_limited(struct loader *l)
{
    return space(l) != RLIM_INFINITY;
}

int space_is_short(struct loader *l)
{
    return space(l) < SPACE_SHORT;
}
