/* SPDX-License-Identifier: MIT
 *
 * A library that defines symbols of every kind, and code that the pass `answer` changes (without
 * MUTE).
 */
#include "symbols.h"

#ifndef MUTE
__asm__(".globl answer\n.type answer, @function\n"
        "answer: movl $1, %eax\nret\n.size answer, . - answer\n");
#endif
__asm__(".data\n.globl only\n.type only, @gnu_unique_object\n.size only, 4\nonly: .long 7\n.text\n");

#define DEFINE(n) int f##n(void) { return n; } int v##n = 100 + n;
EACH(DEFINE)
#define POINT(n) f##n,
/* Through the library's own GOT and data, too, these lead to who comes first. */
int (*const own[])(void) = {EACH(POINT)};
int (*const word)(void) = f0;

extern char absolute[]; /* the linker's */
char *where_absolute(void) { return absolute; }

__thread int local = 3;
int *where_local(void) { return &local; }
static int chosen_here(void) { return 55; }
static int (*choose(void))(void) { return chosen_here; }
int chosen(void) __attribute__((ifunc("choose")));
__attribute__((weak)) int replaced(void) { return 1; }
__attribute__((visibility("protected"))) int kept(void) { return 2; }
