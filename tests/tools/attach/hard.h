/* SPDX-License-Identifier: MIT
 *
 * hard.h: what hard.c's ways have in common.
 */
#ifndef HARD_H
#define HARD_H

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

#endif
