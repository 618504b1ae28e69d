// SPDX-License-Identifier: GPL-2.0
/*
 * spinlock.c: one processor takes no spin locks, it marks them.
 *
 * spin_lock() and its like are variation points, for spinlock_many_cpus.  For one processor they store that the lock
 * is held, without looking.  So its word is what it always is: an interrupt's spin_trylock() fails, and releasing,
 * which is no variation point, stores 0 whichever way it was locked.  Hence any mixture of the two ways is right on one
 * processor.  When a second one runs, no one may be about to mark a lock.  That is so after a task has stopped the
 * machine on the only processor, with interrupts off, and each other task has left spin_lock(), in which it may have been
 * preempted (CONFIG_PREEMPTION): synchronize_rcu_tasks() waits until each has called schedule() itself.
 */
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/rcupdate.h>
#include <linux/spinlock.h>

#include "kernel/linux/glue.h"

#ifdef CONFIG_MULTIVERSE_SPINLOCK

const char *mvl_reserved(const void *variable)
{
	return variable == &spinlock_many_cpus ? "the number of processors says what it is" : NULL;
}

/* Returns 0, or negative errno if some call could not be changed. */
static int set_many(bool many)
{
	int err = mvk_set(&spinlock_many_cpus, many);

	if (err >= 0)
		err = mvk_is_settled(&spinlock_many_cpus) ? 0 : -EBUSY;
	return err;
}

/* Processors that run or may start: cpu_comes is not called again for one that stopped on its way behind it. */
static unsigned int n_cpus;

/* Called before a processor starts.  Only the second one matters: until then this one is alone. */
static int cpu_comes(unsigned int cpu)
{
	int err = 0;

	mvl_lock_cpus_held();
	if (n_cpus == 1) {
		err = set_many(true);
		if (err)
			pr_warn("multiverse: CPU %u stays away, spin locks cannot be made for many: %s\n", cpu,
				mvl_named(err == -EBUSY ? mvk_report() : mvk_error()));
		else if (IS_ENABLED(CONFIG_PREEMPTION))
			synchronize_rcu_tasks();
	}
	n_cpus += !err;
	mvl_unlock_cpus_held();
	return err;
}

/* Called after a processor stopped, or could not start.  If this fails, locks are for many, which is right for one. */
static int cpu_is_gone(unsigned int cpu)
{
	mvl_lock_cpus_held();
	if (--n_cpus == 1)
		set_many(false);
	mvl_unlock_cpus_held();
	return 0;
}

int __init mvl_spinlock_start(void)
{
	int err;

	cpus_read_lock();
	err = cpuhp_setup_state_nocalls_cpuslocked(CPUHP_BP_PREPARE_DYN, "multiverse:spinlock", cpu_comes,
						   cpu_is_gone);
	n_cpus = num_online_cpus();
	if (err >= 0 && n_cpus == 1) {
		mvl_lock_cpus_held();
		set_many(false);
		mvl_unlock_cpus_held();
	}
	cpus_read_unlock();
	return err < 0 ? err : 0;
}

#else

const char *mvl_reserved(const void *variable)
{
	return NULL;
}

int __init mvl_spinlock_start(void)
{
	return 0;
}

#endif
