/* SPDX-License-Identifier: MIT
 *
 * world.h: switches and functions of the kernel's stand-in and of its module.
 */
#ifndef TESTS_KERNEL_WORLD_H
#define TESTS_KERNEL_WORLD_H

#include <stdbool.h>

#define MULTIVERSE __attribute__((multiverse))

extern int many MULTIVERSE;     /* the kernel's */
extern bool traced MULTIVERSE;  /* the module's */
struct settings {
    int unused;
    unsigned char level __attribute__((multiverse("values", 0, 1)));
};
extern struct settings settings; /* the kernel's */
struct operations {
    int (*put)(void), (*get)(void);
};
extern struct operations operations; /* the kernel's */

MULTIVERSE int take(int *lock);         /* the kernel's: adds `many` to what is locked */
MULTIVERSE int level(void);             /* the kernel's */
MULTIVERSE int trace(void);             /* the module's */
MULTIVERSE int module_take(int *lock);  /* the module's, which asks the kernel's switch */
int call_take(int *lock), call_level(void), call_from_init(int *lock), call_through(int *lock);
void call_everywhere(int *lock);
int call_operation(void), eight(void), nine(void), ten(void), twelve(void);
extern const char thunk[]; /* where twelve() jumps */
void set_inline(bool value, int constant); /* fast, which decides in call_inline's body, and what read_step adds to */
int call_inline(int n), read_step(void);
int call_doubled(void), call_module_doubled(void); /* static variables `doubled` */
int call_take_in_module(int *lock), call_trace(void), call_module_take(int *lock);

#endif
