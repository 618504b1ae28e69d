/* SPDX-License-Identifier: MIT
 *
 * rimf/base/lock.h: a lock without libc, for code that lives beside an application.
 *
 * One 32-bit word holds the owner's thread id, so that two cases which would
 * hang for ever under a plain futex lock are told apart:
 *
 *   A signal handler interrupts the owner and comes back here.  The word holds
 *   its own thread id: -EDEADLK.
 *
 *   fork() while another thread owned the lock.  The child has a copy of the
 *   word and no such thread: a waiter asks the kernel (tgkill with signal 0)
 *   whether the owner is one of its own process.  When it is not, the waiter
 *   becomes the owner and is told so by RIMF_LOCK_INHERITED: what the lock
 *   guards may be half-changed, and the caller repairs it before use.  The same
 *   holds for a thread that was ended while it owned the lock.
 *
 * A child of vfork(), or of clone(CLONE_VM) without CLONE_THREAD, shares the
 * memory and is another process to the kernel: it would inherit a lock whose
 * owner still runs.  Do not call mvld between vfork and exec.
 */
#ifndef RIMF_LOCK_H
#define RIMF_LOCK_H

#include "rimf/base/sys.h"

#include <errno.h>       /* numbers only */
#include <linux/futex.h> /* numbers only */
#include <stdint.h>

#define RIMF_LOCK_INHERITED 1
#define RIMF_LOCK_WAITERS 0x80000000u /* a thread sleeps; a thread id has 30 bits at most */

struct rimf_lock {
    uint32_t word; /* 0: free */
};

static inline int rimf_lock_try(struct rimf_lock *lock, uint32_t seen, uint32_t next)
{
    return __atomic_compare_exchange_n(&lock->word, &seen, next, 0, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
}

/* Sleeps until the word may have changed; now and then it wakes on its own, to
 * look whether the owner still lives. */
static inline void rimf_lock_sleep(const struct rimf_sys *sys, struct rimf_lock *lock,
                                   uint32_t seen)
{
    struct {
        int64_t seconds, nanoseconds;
    } timeout = {0, 50 * 1000 * 1000};

    SYS6(sys, SYS_futex, &lock->word, FUTEX_WAIT_PRIVATE, seen, &timeout, 0, 0);
}

/* 0, RIMF_LOCK_INHERITED (owned as well), or -EDEADLK (not owned). */
static inline int rimf_lock_acquire(const struct rimf_sys *sys, struct rimf_lock *lock)
{
    uint32_t self = (uint32_t)SYS3(sys, SYS_gettid, 0, 0, 0), seen;

    if (rimf_lock_try(lock, 0, self))
        return 0;
    for (;;) {
        seen = __atomic_load_n(&lock->word, __ATOMIC_RELAXED);
        if (!seen) { /* others may still sleep, so keep waking them */
            if (rimf_lock_try(lock, 0, self | RIMF_LOCK_WAITERS))
                return 0;
            continue;
        }
        if ((seen & ~RIMF_LOCK_WAITERS) == self)
            return -EDEADLK;
        if (SYS3(sys, SYS_tgkill, SYS3(sys, SYS_getpid, 0, 0, 0), seen & ~RIMF_LOCK_WAITERS, 0) ==
            -ESRCH) {
            if (rimf_lock_try(lock, seen, self | RIMF_LOCK_WAITERS))
                return RIMF_LOCK_INHERITED;
            continue;
        }
        if (!(seen & RIMF_LOCK_WAITERS) && !rimf_lock_try(lock, seen, seen | RIMF_LOCK_WAITERS))
            continue;
        rimf_lock_sleep(sys, lock, seen | RIMF_LOCK_WAITERS);
    }
}

static inline void rimf_lock_release(const struct rimf_sys *sys, struct rimf_lock *lock)
{
    uint32_t old = __atomic_exchange_n(&lock->word, 0, __ATOMIC_RELEASE);

    if (old & RIMF_LOCK_WAITERS)
        SYS3(sys, SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1);
}

#endif
