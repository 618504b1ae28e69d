/* SPDX-License-Identifier: GPL-2.0 */
/*
 * glue.h: what the files of kernel/linux know of each other.
 */
#ifndef MULTIVERSE_LINUX_GLUE_H
#define MULTIVERSE_LINUX_GLUE_H

#include "kernel/core/core.h"

/* platform.c: one lock for everything in core.h, taken inside of cpus_read_lock, before text_mutex. */
void mvl_lock(void);
void mvl_unlock(void);
/* The same where CPU hotplug holds its own lock. */
void mvl_lock_cpus_held(void);
void mvl_unlock_cpus_held(void);
/* The text with names instead of addresses, until the next call. */
const char *mvl_named(const char *text);
/* A result of core.h: an error is one line in the log. */
int mvl_tell(const char *what, int result);

/* spinlock.c: 0, or why a user must not write this switch. */
const char *mvl_reserved(const void *variable);
int mvl_spinlock_start(void);

/* modules.c */
int mvl_modules_start(void);

#endif
