/* SPDX-License-Identifier: MIT
 *
 * A program in three objects that is committed and reverted while its threads
 * call: the executable (switch), liboneof.so (variation points), libother.so
 * (call sites only, some written by hand so that they straddle words, cache
 * lines and pages; the plugin aligns its own).
 *
 * What a variation point gives depends on the switch and on its argument:
 *
 *     point            variants        at a call site
 *     value()          10 + mode       copied into the site
 *     mixed(x)         x * (mode + 3)  called
 *     bump(p)          mode == 1: ++*p empty, or called
 *     (*hook)()        a pointer       direct to where it pointed
 *     OBJECT_quick()   10 + mode       an inline call, in each object
 *
 * and of a constant every byte is mode + 1: one that was read in halves is none.
 */
#ifndef STRESS_H
#define STRESS_H

#include <multiverse.h>

#define MODES 3

extern __attribute__((multiverse("values", 0, 1, 2))) int mode; /* the executable */
extern __attribute__((multiverse)) int (*hook)(void);           /* the executable */
__attribute__((multiverse)) int value(void);                    /* liboneof.so */
__attribute__((multiverse)) unsigned mixed(unsigned x);
__attribute__((multiverse)) void bump(int *p);
extern __attribute__((multiverse("constant"))) unsigned long wide; /* liboneof.so */
extern __attribute__((multiverse("constant"))) unsigned narrow;
int hook_0(void), hook_1(void), hook_2(void); /* 20, 21, 22 */

/* What one call says about the mode that it ran with: 0 … 2, or -1. */
typedef int stress_caller(void);
#define CALLERS(object)                                                                           \
    __attribute__((multiverse("inline"))) static int object##_quick(void)                         \
    {                                                                                             \
        return mode == 0 ? 10 : mode == 1 ? 11 : mode == 2 ? 12 : 99;                             \
    }                                                                                             \
    int object##_inline(void)                                                                     \
    {                                                                                             \
        return object##_quick();                                                                  \
    }                                                                                             \
    int object##_value(void)                                                                      \
    {                                                                                             \
        return value() - 10;                                                                      \
    }                                                                                             \
    int object##_tail(void)                                                                       \
    {                                                                                             \
        return value();                                                                           \
    }                                                                                             \
    int object##_mixed(void)                                                                      \
    {                                                                                             \
        return (int)(mixed(1000) / 1000 - 3);                                                     \
    }                                                                                             \
    int object##_bump(void)                                                                       \
    {                                                                                             \
        int n = 5;                                                                                \
        bump(&n);                                                                                 \
        return n - 5;                                                                             \
    }                                                                                             \
    int object##_hook(void)                                                                       \
    {                                                                                             \
        return hook() - 20;                                                                       \
    }                                                                                             \
    int object##_wide(void)                                                                       \
    {                                                                                             \
        unsigned long read = wide;                                                                \
        return read == (read & 0xff) * 0x0101010101010101 ? (int)(read & 0xff) - 1 : -1;          \
    }                                                                                             \
    int object##_narrow(void)                                                                     \
    {                                                                                             \
        unsigned read = narrow;                                                                   \
        return read == (read & 0xff) * 0x01010101 ? (int)(read & 0xff) - 1 : -1;                  \
    }
#define DECLARE(object)                                                                           \
    stress_caller object##_value, object##_tail, object##_mixed, object##_bump, object##_hook,    \
        object##_wide, object##_narrow, object##_inline;
DECLARE(program)
DECLARE(oneof)
DECLARE(other)

/* straddling.S: callers with one site each; give what value() gives. */
struct stress_straddling {
    stress_caller *call;
    const unsigned char *site;
};
/* The table, which ends with a NULL. */
const struct stress_straddling *stress_straddling(void);

#endif
