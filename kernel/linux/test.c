// SPDX-License-Identifier: GPL-2.0
/*
 * test.c: a module that tries multiverse in the kernel that it is loaded into.  Loading fails, with a line
 * in the log, when something is not as it should be.
 */
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/kprobes.h>
#include <linux/moduleparam.h>
#include <linux/spinlock.h>
#include <linux/stacktrace.h>
#include <linux/string.h>

#include "test.h"

bool multiverse_test_flag __multiverse;
int multiverse_test_level __multiverse_values(0, 1, 2) = 1;

__multiverse void multiverse_test_trace(void);
__multiverse int multiverse_test_is_late(void);

static DEFINE_SPINLOCK(lock);
static unsigned long frames[16];
static unsigned int n_frames;

__multiverse noinline int multiverse_test_ask(void)
{
	return multiverse_test_flag ? 2 : 1;
}

/* Nothing is copied into the call: each variant has a frame. */
__multiverse noinline void multiverse_test_trace(void)
{
	if (multiverse_test_level == 0)
		memset(frames, 0, sizeof(frames));
	n_frames = stack_trace_save(frames, ARRAY_SIZE(frames), multiverse_test_level == 2);
	barrier();
}

static noinline int binds(void)
{
	/* The kernel has committed everything: what comes is committed, too, before its init runs. */
	CHECK(multiverse_test_ask() == 1);
	multiverse_test_flag = true;
	CHECK(multiverse_test_ask() == 1);
	CHECK(multiverse_commit_refs(&multiverse_test_flag) == 4);
	CHECK(multiverse_test_ask() == 2);
	multiverse_test_flag = false;
	CHECK(multiverse_test_ask() == 2);
	CHECK(multiverse_revert_fn(multiverse_test_ask) == 1);
	CHECK(multiverse_test_ask() == 1);
	CHECK(multiverse_commit_fn(multiverse_test_ask) == 1);
	CHECK(multiverse_commit_refs(&lock) == -EINVAL);
	return 0;
}

static bool fast __multiverse;
static int step __multiverse_constant = 3;

static __multiverse_inline int square(int n)
{
	return fast ? n * n : n / 7;
}

static noinline __noclone int call_inline(int n)
{
	return square(n) + step;
}

/* A variation point in its caller, and a constant in its reader. */
static noinline int inlined(void)
{
	CHECK(multiverse_commit() >= 0 && call_inline(14) == 2 + 3);
	fast = true;
	step = 5;
	CHECK(call_inline(14) == 2 + 3);
	CHECK(multiverse_commit() == 2 && call_inline(14) == 14 * 14 + 5);
	fast = false;
	step = 3;
	CHECK(call_inline(14) == 14 * 14 + 5);
	CHECK(multiverse_commit() == 2 && call_inline(14) == 2 + 3);
	return 0;
}

bool multiverse_test_late __multiverse __ro_after_init;

__multiverse noinline int multiverse_test_is_late(void)
{
	return multiverse_test_late ? 2 : 1;
}

/* A switch that is written while its module starts. */
static noinline int set_once(void)
{
	CHECK(multiverse_test_is_late() == 1);
	multiverse_test_late = true;
	CHECK(multiverse_test_is_late() == 1);
	CHECK(multiverse_commit_refs(&multiverse_test_late) == 1);
	CHECK(multiverse_test_is_late() == 2);
	return 0;
}

/* A trace from each variant, and from the generic, leads to the caller. */
static noinline int traces(void)
{
	char name[128];

	for (int i = 0; i < 4; i++) {
		bool found = false;

		multiverse_test_level = i;
		CHECK(multiverse_commit_refs(&multiverse_test_level) >= 0);
		multiverse_test_trace();
		for (unsigned int k = 0; k < n_frames; k++) {
			snprintf(name, sizeof(name), "%ps", (void *)frames[k]);
			found |= !strncmp(name, "traces", 6);
		}
		CHECK(found);
	}
	return 0;
}

#ifdef CONFIG_FAULT_INJECTION
/* One allocation of a commit after the other fails: it says so and changes nothing, or did without it. */
static noinline int shortages(void)
{
	bool in_force = multiverse_test_flag;
	unsigned int left = 0;
	int failed = 0;

	for (int n = 1; !left; n++) {
		int result;

		multiverse_test_flag = !in_force;
		current->fail_nth = n;
		result = multiverse_commit_refs(&multiverse_test_flag);
		left = current->fail_nth;
		current->fail_nth = 0;
		failed += result < 0;
		in_force ^= result >= 0;
		CHECK(result == -ENOMEM || result >= 0);
		CHECK(multiverse_test_ask() == 1 + in_force);
		CHECK(n < 1000);
	}
	pr_info("multiverse_test: %d commits had too little memory\n", failed);
	multiverse_test_flag = false;
	CHECK(multiverse_commit() >= 0 && multiverse_test_ask() == 1);
	return 0;
}
#else
static int shortages(void)
{
	return 0;
}
#endif

#ifdef CONFIG_MULTIVERSE_SPINLOCK
/* A held lock looks like one, and refuses what an interrupt would try, also where one processor only marks it. */
static bool looks_held(void)
{
	return spin_is_locked(&lock) && !spin_trylock(&lock);
}

static noinline int locks(void)
{
	unsigned long flags;
	bool held = true;

	spin_lock(&lock);
	held &= looks_held();
	spin_unlock(&lock);
	spin_lock_irqsave(&lock, flags);
	held &= looks_held();
	spin_unlock_irqrestore(&lock, flags);
	spin_lock_bh(&lock);
	held &= looks_held();
	spin_unlock_bh(&lock);
	spin_lock_irq(&lock);
	held &= looks_held();
	spin_unlock_irq(&lock);
	CHECK(held);
	CHECK(!spin_is_locked(&lock));
	CHECK(spin_trylock(&lock));
	CHECK(!spin_trylock(&lock));
	spin_unlock(&lock);
	return 0;
}
#else
static int locks(void)
{
	return 0;
}
#endif

/* Whose descriptors are damaged.  1: its functions look at the variables.  2: they do what they do. */
static int damaged;
module_param(damaged, int, 0);

/* No self-test, which needs memory. */
static bool untried;
module_param(untried, bool, 0);

/* The init fails behind a commit. */
static bool fails;
module_param(fails, bool, 0);

/* Milliseconds that the init takes, without a self-test. */
static unsigned int lasts;
module_param(lasts, uint, 0);

static int wanders(void)
{
	for (int i = 0; i < 3; i++) {
		multiverse_test_flag = i & 1;
		multiverse_test_level = i;
		multiverse_commit();
		multiverse_test_ask();
		multiverse_test_trace();
		multiverse_test_note();
	}
	multiverse_revert();
	multiverse_commit();
	return 0;
}

static int stays_generic(void)
{
	for (int i = 1; i <= 2; i++) {
		multiverse_test_flag = i == 2;
		CHECK(multiverse_commit() >= 0);
		CHECK(multiverse_test_ask() == i);
	}
	return locks();
}

/* Where a probe stands until the module goes: "call", of multiverse_test_ask(), or a function of vmlinux. */
static char *probed;
module_param(probed, charp, 0);
static struct kprobe probe;

static noinline int call(void)
{
	return multiverse_test_ask() + 10;
}

static int put_probe(void)
{
	if (strcmp(probed, "call")) {
		probe.symbol_name = probed;
	} else {
		probe.addr = (void *)multiverse_test_call_in(call, false);
		CHECK(probe.addr && call() == 11);
	}
	return register_kprobe(&probe);
}

static int __init test(void)
{
	static int (*const tests[])(void) = {
		binds, inlined, set_once, multiverse_test_code, traces, multiverse_test_probes, multiverse_test_optimized,
		multiverse_test_prefixed, shortages, locks,
	};

	if (damaged)
		return damaged == 1 ? stays_generic() : wanders();
	if (probed)
		return put_probe();
	if (fails)
		return multiverse_commit() < 0 ? 0 : -EINVAL;
	msleep(lasts);
	if (untried || lasts)
		return multiverse_test_ask() == 1 ? 0 : -EINVAL;
	for (int i = 0; i < ARRAY_SIZE(tests); i++) {
		int err = tests[i]();

		if (err)
			return err;
	}
	pr_info("multiverse_test: passed with %u processors\n", num_online_cpus());
	return 0;
}

static void __exit leave(void)
{
	if (probed)
		unregister_kprobe(&probe);
}

module_init(test);
module_exit(leave);
MODULE_DESCRIPTION("Test of multiverse");
MODULE_LICENSE("GPL");
