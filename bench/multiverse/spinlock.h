/* SPDX-License-Identifier: MIT
 *
 * spinlock.h: what spinlock.c knows of the ways to write the lock, spinlock_way.c with -DNAME=.
 */
#ifndef BENCH_SPINLOCK_H
#define BENCH_SPINLOCK_H

extern unsigned long counted;

/* n rounds with nothing between lock and unlock; with one addition to `counted`; and the switch,
 * which is committed where the way does that. */
#define DECLARE_WAY(name)                                                                         \
    void empty_##name(long n);                                                                    \
    void counts_##name(long n);                                                                   \
    int set_##name(int smp)

#endif
