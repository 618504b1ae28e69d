/* SPDX-License-Identifier: MIT
 *
 * library.c: what main.cc calls; with -DPLUGIN, what it loads later.
 */
#include <stdio.h>

int base(int);

#ifdef PLUGIN

/* Defined by the program as well: RTLD_DEEPBIND prefers the plugin's own. */
int chosen(void) { return 2; }

int plugin_calls(int x)
{
    return base(x) * 100 + chosen();
}

#else

int base(int x) { return x + 1; }
int interposed(void) { return 1; }
int through_library(void) { return interposed(); }

static int one(int x) { return x + 10; }
static int (*choose(void))(int) { return one; }
int chosen_once(int) __attribute__((ifunc("choose")));

/* Its resolver chooses otherwise later, which binding at the first call shows; the library itself is bound at once. */
static int is_late;
static int early(int x) { return x + 20; }
static int late(int x) { return x + 30; }
static int (*choose_now(void))(int) { return is_late ? late : early; }
int chosen_late(int) __attribute__((ifunc("choose_now")));
__attribute__((visibility("hidden"))) int chosen_at_once(int) __attribute__((ifunc("choose_now")));
int become_late(int x) { is_late = 1; return chosen_at_once(x); }

/* Two versions of one symbol; a program linked with the second may ask for the first. */
int version_1(void) { return 1; }
int version_2(void) { return 2; }
__asm__(".symver version_1, version@V1");
__asm__(".symver version_2, version@@V2");

void calls_back(void (*function)(void *), void *data) { function(data); }

/* A symbol that is unique in the process. */
__asm__(".globl unique\n"
        ".type unique, @gnu_unique_object\n"
        ".text\n"
        "unique: movl $77, %eax\n"
        "ret\n"
        ".size unique, . - unique\n");

#endif
