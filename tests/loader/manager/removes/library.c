/* SPDX-License-Identifier: MIT
 *
 * library.c: functions that are reachable in each way, and functions that are not.  Its symbols are stripped.
 */
#ifdef __clang__ /* which only checks this file for warnings */
#define ALONE __attribute__((noinline))
#else
#define ALONE __attribute__((noipa))
#endif
#define HIDDEN ALONE __attribute__((visibility("hidden")))

volatile int filled[8];
#define LONG(n) for (int i = 0; i < 8; i++) filled[i] = filled[i] * (n) + i % ((n) + 2)

HIDDEN int both(int n) { LONG(n); return filled[0] + n + 1; }
HIDDEN int only_unused(int n) { LONG(n); return both(n) * 3; }
ALONE int used(int n) { return both(n) * 2; }
ALONE int unused(int n) { LONG(n); LONG(n + 1); LONG(n + 2); return only_unused(n) + 1; }
ALONE int looked_up(int n) { return n + 5; }
ALONE int in_data(int n) { return n + 6; }
ALONE __attribute__((visibility("protected"))) int taken(int n) { return n + 7; }
ALONE int bound_by_itself(int n) { return n + 8; }
int (*volatile pointer)(int) = in_data;
ALONE int (*take(void))(int) { return bound_by_itself(1) ? taken : 0; }
