/* SPDX-License-Identifier: MIT
 *
 * hard.h: what hard.c's ways have in common.
 */
#ifndef HARD_H
#define HARD_H

#include <sys/types.h>

extern char **arguments;

/* Says "ready", and "whole" at the end of the input. */
void wait_for_input(void);
/* A thread on a small stack. */
void start(void *(*function)(void *));

/* ---- filters.c */
void by_filter(void);
void by_filtered(void);
void by_clones(void);

/* ---- stacks.c */
void by_coroutine(void);
void by_adjacent(void);
void by_handler(void);
void by_shallow(void);
void by_masked(void);
void by_forked(void);

/* For children that end at once.  fork(3) of glibc 2.41 blocks signals meanwhile, and a blocked SIGCHLD is not ignored: when the
 * child ends before fork returns, another thread's epoll_wait(2) says EINTR, though nobody traces the process. */
pid_t make_child(void);

#endif
