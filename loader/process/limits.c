/* SPDX-License-Identifier: MIT
 *
 * loader/process/limits.c: how much address space there is.
 */
#include "loader/loader.h"

#include <sys/resource.h> /* numbers only */

/* 0 is no limit with which a program starts. */
static uint64_t space(struct loader *l)
{
    struct rlimit limit;

    if (!l->space)
        l->space = SYS6(l->sys, SYS_prlimit64, 0, RLIMIT_AS, NULL, &limit, 0, 0) ? SPACE_SHORT : limit.rlim_cur;
    return l->space;
}

/* Where the address space is limited, a library of hundreds of MB is refused, which the host
 * loader says on standard error, or leaves too little for the program. */
int space_is_limited(struct loader *l)
{
    return space(l) != RLIM_INFINITY;
}

int space_is_short(struct loader *l)
{
    return space(l) < SPACE_SHORT;
}
