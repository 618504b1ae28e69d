/* SPDX-License-Identifier: GPL-2.0 */
/*
 * test.h: shared by the files of the test module.
 */
#ifndef MULTIVERSE_LINUX_TEST_H
#define MULTIVERSE_LINUX_TEST_H

#include <linux/module.h>
#include <linux/multiverse.h>

extern bool multiverse_test_flag __multiverse;

/* 1, or 2 if the flag is true. */
__multiverse int multiverse_test_ask(void);

#define CHECK(condition)							\
	do {									\
		if (!(condition)) {						\
			pr_err("multiverse_test: line %d: not so: %s\n",	\
			       __LINE__, #condition);				\
			return -EINVAL;						\
		}								\
	} while (0)

/* test_code.c.  Does nothing. */
__multiverse void multiverse_test_note(void);

/* test_code.c, test_probes.c.  0 or negative errno, as all tests. */
int multiverse_test_code(void);
int multiverse_test_probes(void);
int multiverse_test_prefixed(void);
int multiverse_test_optimized(void);
/* Where the first call of the function begins; or NULL. */
u8 *multiverse_test_call_in(void *function, bool with_prefixes);

#endif
