// SPDX-License-Identifier: GPL-2.0
/*
 * test_probes.c: probes and multiverse change the same code.
 */
#include <linux/completion.h>
#include <linux/cpufeature.h>
#include <linux/delay.h>
#include <linux/kprobes.h>
#include <linux/kthread.h>

#include "mvld/descriptor.h"

#include "test.h"

/* Where a probe is, nothing is changed, until it is gone. */
int multiverse_test_probes(void)
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

u8 *multiverse_test_call_in(void *function, bool with_prefixes)
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
int multiverse_test_prefixed(void)
{
	struct kprobe probe = {.addr = (void *)multiverse_test_call_in(calls, true)};
	int sum;

	CHECK(probe.addr && multiverse_revert() >= 0);
	if (register_kprobe(&probe)) /* not configured */
		return 0;
	sum = calls();
	unregister_kprobe(&probe);
	CHECK(sum == 4);
	CHECK(multiverse_commit() >= 0);
	probe = (struct kprobe){.addr = (void *)multiverse_test_call_in(calls, true)};
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
int multiverse_test_optimized(void)
{
	struct kprobe probe = {.addr = (void *)(multiverse_test_call_in(ask_behind, false) - 2), .pre_handler = nothing,
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
