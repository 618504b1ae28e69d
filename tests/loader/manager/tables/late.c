/* SPDX-License-Identifier: MIT
 *
 * A library that is opened later, with references of its own.
 */
extern int called(int);
static int mine(int n) { return n + 4; }
int late_function(int n) { return n + 4; }
static int (*volatile word)(int) = mine;
static int (*const volatile relro)(int) = called;
int late(void) { return word(0) * 1000 + relro(0); }
