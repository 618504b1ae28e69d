/* SPDX-License-Identifier: GPL-2.0 */
/*
 * <linux/multiverse.h>: switches that become code.
 *
 *	bool audited __multiverse;
 *
 *	__multiverse void note(struct event *e) { if (audited) write_down(e); }
 *
 *	audited = true;
 *	multiverse_commit_refs(&audited);
 *
 * The compiler plugin makes a variant of note() for each value; a commit changes the calls to lead to the
 * one that fits.  Until then note() looks at the variable.  As in user space (include/multiverse.h of mvld).
 *
 * All functions may sleep, and stop all processors for a moment.  Not inside of CPU hotplug callbacks, which hold
 * the lock that these take.  Without CONFIG_MULTIVERSE the variables are variables.
 */
#ifndef _LINUX_MULTIVERSE_H
#define _LINUX_MULTIVERSE_H

#ifdef MULTIVERSE_PLUGIN /* also not for the vDSO and the like */
#define __multiverse		__attribute__((multiverse))
#define __multiverse_values(...) __attribute__((multiverse("values", __VA_ARGS__)))
#else
#define __multiverse
#define __multiverse_values(...)
#endif

#ifdef CONFIG_MULTIVERSE
/* How many functions are bound otherwise now, or negative errno, with a line in the log. */
int multiverse_commit(void);
int multiverse_revert(void);
int multiverse_commit_refs(void *variable);
int multiverse_revert_refs(void *variable);
int multiverse_commit_fn(void *function);
int multiverse_revert_fn(void *function);
#else
static inline int multiverse_commit(void) { return 0; }
static inline int multiverse_revert(void) { return 0; }
static inline int multiverse_commit_refs(void *variable) { return 0; }
static inline int multiverse_revert_refs(void *variable) { return 0; }
static inline int multiverse_commit_fn(void *function) { return 0; }
static inline int multiverse_revert_fn(void *function) { return 0; }
#endif

#endif
