/* SPDX-License-Identifier: MIT
 *
 * rimf/base/sys.c: the kernel itself, behind struct rimf_sys.  A file of its own, because base.c is also built into the
 * kernel, where there is no such call.
 */
#include "rimf/base/sys.h"

static long kernel_call(const struct rimf_sys *sys, long nr, long a, long b, long c, long d,
                        long e, long f)
{
    (void)sys;
    return rimf_syscall(nr, a, b, c, d, e, f);
}

const struct rimf_sys rimf_sys_kernel = {.call = kernel_call};
