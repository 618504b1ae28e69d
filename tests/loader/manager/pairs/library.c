/* SPDX-License-Identifier: MIT */
int called(int n) { return 3 * n; }
int other(int n) { return 3 * n + 1; }
int bound(void) { return 1; }
int bound_other(void) { return 2; }
int unused(int n) { return n * 7 + 3; }
