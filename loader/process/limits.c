/* SPDX-License-Identifier: MIT
 *
 * loader/process/limits.c: how much address space there is.
 */
#include "loader/loader.h"

#include <sys/resource.h> /* numbers only */

/* Where the address space is limited, a library of hundreds of MB is refused, which the host
 * loader says on standard error, or leaves too little for the program. */
int space_is_limited(struct loader *l)
{
    struct rlimit limit;

    if (l->space == SPACE_NOT_ASKED)
        l->space = SYS6(l->sys, SYS_prlimit64, 0, RLIMIT_AS, NULL, &limit, 0, 0) ||
                           limit.rlim_cur != RLIM_INFINITY
                       ? SPACE_LIMITED
                       : SPACE_FREE;
    return l->space == SPACE_LIMITED;
}
