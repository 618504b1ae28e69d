// SPDX-License-Identifier: GPL-2.0
/*
 * test_code.c: code that the kernel changes, too, or knows by its address.
 */
#include <linux/jump_label.h>
#include <linux/static_call.h>
#include <linux/string.h>
#include <linux/vmalloc.h>
#include <asm/alternative.h>
#include <asm/asm.h>
#include <asm/word-at-a-time.h>

#include "test.h"

__multiverse void multiverse_test_tell(void);
__multiverse unsigned long multiverse_test_load(const void *at);

static DEFINE_STATIC_KEY_FALSE(noting);
static int n_notes;

/* A variant that is a NOP, until the static key is true. */
__multiverse noinline void multiverse_test_note(void)
{
	if (multiverse_test_flag && static_branch_unlikely(&noting))
		n_notes++;
}

static void take_note(void)
{
	n_notes++;
}

DEFINE_STATIC_CALL_NULL(told, take_note);

/* A variant that is a return, until the static call has a function. */
__multiverse noinline void multiverse_test_tell(void)
{
	if (multiverse_test_flag)
		static_call_cond(told)();
}

/* A variant that is one load, which may fault. */
__multiverse noinline unsigned long multiverse_test_load(const void *at)
{
	return multiverse_test_flag ? load_unaligned_zeropad(at) : 0;
}

/* A call in an alternative, which only asm has, with a descriptor, as asm may write one. */
#define CALL									\
	"791:\tcall multiverse_test_ask\n\t"					\
	".pushsection multiverse_callsites,\"a\",@progbits\n\t"			\
	".balign 4\n\t"								\
	".long 791b-., multiverse_test_ask-.\n\t"				\
	".popsection\n\t"
#define MOVE	"movl $7, %%eax\n\t"
#define CHOOSE(before, after, feature)						\
	({									\
		int __result;							\
		asm volatile(".balign 8\n\t" ALTERNATIVE(before, after, feature)		\
			     : "=a" (__result), ASM_CALL_CONSTRAINT : : "rcx", "rdx",	\
			       "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc");	\
		__result;							\
	})

/* It remains; it was replaced; it is the replacement, which is a copy of what the descriptor tells of. */
static noinline bool alternatives_give(int asked)
{
	return CHOOSE(CALL, MOVE, ALT_NOT(X86_FEATURE_ALWAYS)) == asked &&
	       CHOOSE(CALL, MOVE, X86_FEATURE_ALWAYS) == 7 &&
	       CHOOSE(MOVE, CALL, X86_FEATURE_ALWAYS) == asked;
}

static noinline int alternatives(void)
{
	CHECK(alternatives_give(1));
	multiverse_test_flag = true;
	CHECK(alternatives_give(1));
	CHECK(multiverse_commit_refs(&multiverse_test_flag) >= 1);
	CHECK(alternatives_give(2));
	multiverse_test_flag = false;
	CHECK(multiverse_revert() >= 1 && alternatives_give(1));
	CHECK(multiverse_commit() >= 1 && alternatives_give(1));
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

/* The same for a static call. */
static noinline int static_calls(void)
{
	n_notes = 0;
	multiverse_test_flag = true;
	CHECK(multiverse_commit_refs(&multiverse_test_flag) >= 1);
	multiverse_test_tell();
	CHECK(n_notes == 0);
	static_call_update(told, take_note);
	multiverse_test_tell();
	CHECK(n_notes == 1);
	static_call_update(told, NULL);
	multiverse_test_tell();
	CHECK(n_notes == 1);
	multiverse_test_flag = false;
	CHECK(multiverse_commit_refs(&multiverse_test_flag) >= 1);
	return 0;
}

/* A fault of a variant is handled, which the kernel finds by the instruction's address: there are zeroes behind a page. */
static noinline int faults(void)
{
	u8 *page = vmalloc(PAGE_SIZE);
	unsigned long loaded;

	CHECK(page);
	memset(page, 0xff, PAGE_SIZE);
	multiverse_test_flag = true;
	CHECK(multiverse_commit_refs(&multiverse_test_flag) >= 1);
	loaded = multiverse_test_load(page + PAGE_SIZE - 4);
	vfree(page);
	CHECK(loaded == U32_MAX);
	multiverse_test_flag = false;
	CHECK(multiverse_commit_refs(&multiverse_test_flag) >= 1);
	return 0;
}

int multiverse_test_code(void)
{
	int err = alternatives();

	err = err ?: keys();
	err = err ?: static_calls();
	return err ?: faults();
}
