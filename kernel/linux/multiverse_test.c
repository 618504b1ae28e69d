// SPDX-License-Identifier: GPL-2.0
/*
 * multiverse_test.c: a module that tries multiverse in the kernel that it is loaded into.  Loading fails, with a line
 * in the log, when something is not as it should be.
 */
#include <linux/completion.h>
#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/jump_label.h>
#include <linux/kprobes.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/multiverse.h>
#include <linux/spinlock.h>
#include <linux/stacktrace.h>
#include <linux/string.h>

#include "mvld/descriptor.h"

bool multiverse_test_flag __multiverse;
int multiverse_test_level __multiverse_values(0, 1, 2) = 1;

__multiverse int multiverse_test_ask(void);
__multiverse void multiverse_test_trace(void);
__multiverse void multiverse_test_note(void);

static DEFINE_SPINLOCK(lock);
static unsigned long frames[16];
static unsigned int n_frames;

__multiverse noinline int multiverse_test_ask(void)
{
	return multiverse_test_flag ? 2 : 1;
}

static DEFINE_STATIC_KEY_FALSE(noting);
static int n_notes;

/* A variant that is a NOP, until the static key is true. */
__multiverse noinline void multiverse_test_note(void)
{
	if (multiverse_test_flag && static_branch_unlikely(&noting))
		n_notes++;
}

/* Nothing is copied into the call: each variant has a frame. */
__multiverse noinline void multiverse_test_trace(void)
{
	if (multiverse_test_level == 0)
		memset(frames, 0, sizeof(frames));
	n_frames = stack_trace_save(frames, ARRAY_SIZE(frames), multiverse_test_level == 2);
	barrier();
}

#define CHECK(condition)							\
	do {									\
		if (!(condition)) {						\
			pr_err("multiverse_test: line %d: not so: %s\n",	\
			       __LINE__, #condition);				\
			return -EINVAL;						\
		}								\
	} while (0)

static noinline int binds(void)
{
	/* The kernel has committed everything: what comes is committed, too, before its init runs. */
	CHECK(multiverse_test_ask() == 1);
	multiverse_test_flag = true;
	CHECK(multiverse_test_ask() == 1);
	CHECK(multiverse_commit_refs(&multiverse_test_flag) == 2);
	CHECK(multiverse_test_ask() == 2);
	multiverse_test_flag = false;
	CHECK(multiverse_test_ask() == 2);
	CHECK(multiverse_revert_fn(multiverse_test_ask) == 1);
	CHECK(multiverse_test_ask() == 1);
	CHECK(multiverse_commit_fn(multiverse_test_ask) == 1);
	CHECK(multiverse_commit_refs(&lock) == -EINVAL);
	return 0;
}

/* A static key in a variant is obeyed, whenever it changes. */
static noinline int keys(void)
{
	n_notes = 0;
	multiverse_test_flag = true;
	CHECK(multiverse_commit_refs(&multiverse_test_flag) >= 1);
	multiverse_test_note();
	CHECK(n_notes == 0);
	static_branch_enable(&noting);
	multiverse_test_note();
	CHECK(n_notes == 1);
	static_branch_disable(&noting);
	multiverse_test_note();
	CHECK(n_notes == 1);
	multiverse_test_flag = false;
	CHECK(multiverse_commit_refs(&multiverse_test_flag) >= 1);
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

/* Where a probe is, nothing is changed, until it is gone. */
static noinline int probes(void)
{
	struct kprobe probe = {.addr = (void *)multiverse_test_ask};
	int err;

	CHECK(multiverse_revert() >= 0);
	err = register_kprobe(&probe);
	if (err) /* not configured */
		return 0;
	multiverse_test_flag = true;
	err = multiverse_commit_refs(&multiverse_test_flag);
	CHECK(multiverse_test_ask() == 2);
	unregister_kprobe(&probe);
	CHECK(err >= 0 && multiverse_test_ask() == 2);
	CHECK(multiverse_commit() >= 0 && multiverse_test_ask() == 2);
	multiverse_test_flag = false;
	CHECK(multiverse_test_ask() == 2);
	CHECK(multiverse_commit() >= 0 && multiverse_test_ask() == 1);
	return 0;
}

static noinline int calls(void)
{
	return multiverse_test_ask() + multiverse_test_ask() + multiverse_test_ask() + multiverse_test_ask();
}

/* Where a call in the function begins, with prefixes or not; or NULL. */
static u8 *call_in(void *function, bool with_prefixes)
{
	const struct multiverse_callsite *site = THIS_MODULE->mv_callsites;
	const struct multiverse_callsite *end = (void *)site + THIS_MODULE->mv_callsites_size;

	for (; site < end; site++) {
		u8 *at = (u8 *)&site->site + site->site;

		if ((size_t)(at - (u8 *)function) >= 64 || (with_prefixes && at[-1] != 0x2e))
			continue;
		while (at[-1] == 0x2e)
			at--;
		return at;
	}
	return NULL;
}

/* A probe on its first prefix: it returns behind the call, and what it remembers is not changed under it. */
static noinline int prefixed(void)
{
	struct kprobe probe = {.addr = call_in(calls, true)};
	int sum;

	CHECK(probe.addr && multiverse_revert() >= 0);
	if (register_kprobe(&probe)) /* not configured */
		return 0;
	sum = calls();
	unregister_kprobe(&probe);
	CHECK(sum == 4);
	CHECK(multiverse_commit() >= 0);
	probe = (struct kprobe){.addr = call_in(calls, true)};
	CHECK(!register_kprobe(&probe));
	multiverse_test_flag = true;
	sum = multiverse_commit_refs(&multiverse_test_flag);
	unregister_kprobe(&probe);
	CHECK(sum >= 0 && calls() == 1 + 2 + 2 + 2);
	multiverse_test_flag = false;
	CHECK(multiverse_commit() >= 0 && calls() == 4);
	return 0;
}

struct asked {
	int result;
	struct completion done;
};

/*
 * xor %ecx, %ecx; then the call, which needs no prefixes there.  A thread, since no probe becomes a jump where int3 stands
 * behind a return.
 */
static int ask_behind(void *cookie)
{
	struct asked *asked = cookie;

	asm volatile(".balign 8\n\txorl %%ecx, %%ecx" : : : "ecx", "cc");
	asked->result = multiverse_test_ask();
	kthread_complete_and_exit(&asked->done, 0);
}

static int called_behind(void)
{
	struct asked asked = {.done = COMPLETION_INITIALIZER_ONSTACK(asked.done)};
	struct task_struct *thread = kthread_run(ask_behind, &asked, "multiverse_test");

	if (IS_ERR(thread))
		return PTR_ERR(thread);
	wait_for_completion(&asked.done);
	return asked.result;
}

static int nothing(struct kprobe *probe, struct pt_regs *regs)
{
	return 0;
}

/*
 * A probe before a call becomes a jump later, to a copy of both instructions: what is called remains the same.  The kernel
 * makes a jump of none before a call that is one, only before a body that was copied into the call.
 */
static noinline int optimized(void)
{
	struct kprobe probe = {.addr = (void *)(call_in(ask_behind, false) - 2), .pre_handler = nothing,
			       .flags = KPROBE_FLAG_DISABLED};
	const u8 *at = (void *)probe.addr;
	bool body = at[2] == 0xb8, jump; /* mov $1, %eax */
	int first, later;

	CHECK(at[0] == 0x31 && at[1] == 0xc9);
	CHECK(body || IS_ENABLED(CONFIG_FUNCTION_TRACER) || cpu_feature_enabled(X86_FEATURE_RETHUNK));
	CHECK(called_behind() == 1);
	if (register_kprobe(&probe)) /* not configured */
		return 0;
	multiverse_test_flag = true;
	CHECK(multiverse_commit_refs(&multiverse_test_flag) >= 0);
	first = called_behind();
	CHECK(!enable_kprobe(&probe));
	for (int i = 0; body && i < 500 && READ_ONCE(*at) != 0xe9; i++)
		msleep(20);
	jump = READ_ONCE(*at) == 0xe9;
	later = called_behind();
	pr_info("multiverse_test: a probe %s a jump\n", jump ? "became" : "did not become");
	unregister_kprobe(&probe);
	CHECK(first == later && jump == body);
	for (int i = 0; i < 500 && READ_ONCE(*at) != 0x31; i++) /* the jump goes later, too */
		msleep(20);
	CHECK(multiverse_commit() >= 0 && called_behind() == 2);
	multiverse_test_flag = false;
	CHECK(multiverse_commit() >= 0 && called_behind() == 1);
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

static int __init test(void)
{
	int err;

	if (damaged)
		return damaged == 1 ? stays_generic() : wanders();
	if (untried)
		return multiverse_test_ask() == 1 ? 0 : -EINVAL;
	err = binds();
	if (!err)
		err = keys();
	if (!err)
		err = traces();
	if (!err)
		err = probes();
	if (!err)
		err = optimized();
	if (!err)
		err = prefixed();
	if (!err)
		err = shortages();
	if (!err)
		err = locks();
	if (!err)
		pr_info("multiverse_test: passed with %u processors\n", num_online_cpus());
	return err;
}

static void __exit leave(void)
{
}

module_init(test);
module_exit(leave);
MODULE_DESCRIPTION("Test of multiverse");
MODULE_LICENSE("GPL");
