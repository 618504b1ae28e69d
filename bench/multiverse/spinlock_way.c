/* SPDX-License-Identifier: MIT
 *
 * One way to write the spin lock of Figure 1 of the EuroSys 2019 paper, as WAY says, and two
 * loops that take it.  With one CPU it is a barrier for the compiler, as Linux's is (the paper's
 * also disables interrupts, which a program cannot do); with several it is taken and released.
 */
#include "spinlock.h"

#include <multiverse.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define STATIC_UP 1
#define STATIC_SMP 2
#define BRANCH 3   /* an if, inlined */
#define FUNCTION 4 /* the same, called */
#define POINTER 5  /* one of two functions, through a pointer, as PV-Ops had it */
#define POINTER_POINT 6 /* the pointer is a variation point */
#define POINT 7    /* the lock is one */
#define CALLER 8   /* who takes the lock is one */
#define INLINE 9   /* the lock is multiverse("inline") */
#define CONSTANT 10 /* the switch is multiverse("constant") */
#define FLOOR 11   /* no lock: an argument and a NOP for each call, as a commit leaves them */

#define inlined static inline __attribute__((always_inline))
#define called static __attribute__((noinline))

#if WAY == POINT || WAY == CALLER || WAY == INLINE
#define SWITCH __attribute__((multiverse))
#elif WAY == CONSTANT
#define SWITCH __attribute__((multiverse("constant")))
#else
#define SWITCH
#endif

struct lock {
    int taken;
};
static struct lock lock __attribute__((aligned(64))); /* alone in its line of the cache */

inlined void acquire(struct lock *l)
{
    while (__atomic_exchange_n(&l->taken, 1, __ATOMIC_ACQUIRE))
        __builtin_ia32_pause();
}

inlined void release(struct lock *l)
{
    __atomic_store_n(&l->taken, 0, __ATOMIC_RELEASE);
}

inlined void barrier(void)
{
    __asm__ volatile("" ::: "memory");
}

#if WAY == STATIC_UP || WAY == FLOOR
#define IS_SMP 0
#elif WAY == STATIC_SMP
#define IS_SMP 1
#elif WAY != POINTER && WAY != POINTER_POINT
SWITCH int JOIN(smp_, NAME);
#define IS_SMP JOIN(smp_, NAME)
#endif

#if WAY == POINTER || WAY == POINTER_POINT
#if WAY == POINTER_POINT
#define KIND __attribute__((multiverse))
#else
#define KIND
#endif
called void nothing(struct lock *l)
{
    (void)l;
    barrier();
}
called void lock_smp(struct lock *l)
{
    acquire(l);
}
called void unlock_smp(struct lock *l)
{
    release(l);
}
KIND void (*JOIN(lock_, NAME))(struct lock *) = nothing;
KIND void (*JOIN(unlock_, NAME))(struct lock *) = nothing;
#define spin_lock JOIN(lock_, NAME)
#define spin_unlock JOIN(unlock_, NAME)
#elif WAY == FLOOR
inlined void spin_lock(struct lock *l)
{
    __asm__ volatile("mov %0, %%edi\n\t.byte 0x0f, 0x1f, 0x44, 0, 0"
                     :
                     : "i"(l)
                     : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory");
}
#define spin_unlock spin_lock
#else
#if WAY == POINT
#define KIND __attribute__((multiverse)) called
#elif WAY == FUNCTION
#define KIND called
#elif WAY == INLINE
#define KIND __attribute__((multiverse("inline"))) static
#else
#define KIND inlined
#endif
KIND void spin_lock(struct lock *l)
{
    barrier();
    if (IS_SMP)
        acquire(l);
}
KIND void spin_unlock(struct lock *l)
{
    if (IS_SMP)
        release(l);
    barrier();
}
#endif

#if WAY == CALLER
#define LOOP __attribute__((multiverse))
#else
#define LOOP __attribute__((noinline))
#endif

LOOP void JOIN(empty_, NAME)(long n)
{
    do {
        spin_lock(&lock);
        spin_unlock(&lock);
    } while (--n);
}

LOOP void JOIN(counts_, NAME)(long n)
{
    do {
        spin_lock(&lock);
        counted++;
        spin_unlock(&lock);
    } while (--n);
}

/* Sets what decides, and commits it if the way does.  Negative: an error. */
int JOIN(set_, NAME)(int smp)
{
    int result = 0;

#if WAY == STATIC_UP || WAY == STATIC_SMP || WAY == FLOOR
    (void)smp;
#elif WAY == POINTER || WAY == POINTER_POINT
    spin_lock = smp ? lock_smp : nothing;
    spin_unlock = smp ? unlock_smp : nothing;
#else
    IS_SMP = smp;
#endif
#if COMMITS && WAY == POINTER_POINT
    result = multiverse_commit_fn(&spin_lock) | multiverse_commit_fn(&spin_unlock);
#elif COMMITS
    result = multiverse_commit_refs(&IS_SMP);
#endif
    return result;
}
