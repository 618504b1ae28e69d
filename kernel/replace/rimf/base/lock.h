/* SPDX-License-Identifier: MIT
 *
 * replace/rimf/base/lock.h: the engine's lock where a kernel's mutex is held around every call (kernel/core/core.h),
 * so that nothing is left to do.  It stands before the one of user space in the list of include folders.
 */
#ifndef RIMF_LOCK_H
#define RIMF_LOCK_H

#include <errno.h>
#include <stdint.h>

#define RIMF_LOCK_INHERITED 1

struct rimf_sys;
struct rimf_lock {
    uint32_t word;
};

static inline int rimf_lock_acquire(const struct rimf_sys *sys, struct rimf_lock *lock)
{
    (void)sys;
    (void)lock;
    return 0;
}

static inline void rimf_lock_release(const struct rimf_sys *sys, struct rimf_lock *lock)
{
    (void)sys;
    (void)lock;
}

#endif
