/* SPDX-License-Identifier: MIT
 *
 * The libraries of main.c, one at a time: FIRST, SECOND, LATE or MINE.
 */
int answer(void);

#if defined FIRST
int answer(void) { return 1; }
int through(void) { return answer(); }
#elif defined SECOND
int other(void) { return 2; }
#elif defined LATE
int late(void) { return answer(); }
#elif defined MINE
int answer(void) { return 3; }
#endif
