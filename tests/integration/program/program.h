/* SPDX-License-Identifier: MIT
 *
 * A program in four objects for program_tests.py: a switch in the executable, a
 * variation point in libpoints.so, call sites everywhere, liblate.so by dlopen.
 *
 * which() returns the switch.  To tell a committed call from a dynamic one, set
 * the switch to something else and call: a committed one does not notice.
 */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <multiverse.h>

extern __attribute__((multiverse("values", 0, 1, 2))) int mode;
__attribute__((multiverse)) int which(void); /* libpoints.so */
int call_which(void);                        /* libcalls.so: a call from there */
int which_while(int value);                  /* libcalls.so: with the switch set to `value` */
extern int seen_by_constructor;              /* libcalls.so */
/* liblate.so */
typedef int late_fn(void);

#endif
