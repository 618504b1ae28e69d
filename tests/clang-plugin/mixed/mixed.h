/* SPDX-License-Identifier: MIT
 *
 * mixed.h: the switches and points of a program whose units come from two compilers.  Each unit reads
 * switches that another one defines, and calls points of another.
 */
#ifndef MIXED_H
#define MIXED_H

#include <stdbool.h>
#include <stdint.h>

#define MV __attribute__((multiverse))
#define HIDDEN __attribute__((visibility("hidden")))

enum mode { FAST = -2, PLAIN, SLOW = 70000 };
extern MV bool verbose;                                        /* here.c */
extern MV enum mode mode HIDDEN;                               /* there.c */
extern MV int level;                                           /* library.c */
extern __attribute__((multiverse("values", 1, 3))) uint64_t chosen; /* library.c */

/* What is called, in the order of the table in main.c. */
MV int here(int);
MV int here_ranges(int);
MV int here_calls(int);
MV int there(int) HIDDEN;
MV int there_ranges(int);
MV int there_calls(int);
MV int library(int);
MV int library_ranges(int);
MV int library_chosen(int);
int call_here(int), call_there(int), call_library(int);

#endif
