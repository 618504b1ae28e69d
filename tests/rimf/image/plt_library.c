/* SPDX-License-Identifier: MIT
 *
 * What plt_program.c calls: a function of its own kind each.
 */
int lib_plain(int x) { return x + 1; }
int lib_other(int x) { return x + 2; }

static int chosen(int x) { return x + 3; }
/* Used by name alone, which clang does not see. */
__attribute__((used)) static int (*choose(void))(int) { return chosen; }
int lib_ifunc(int x) __attribute__((ifunc("choose")));
