/* SPDX-License-Identifier: MIT
 *
 * What is legal but has no or less effect is a warning, at the right line.
 */
#define MV __attribute__((multiverse))
MV volatile int unstable;                  /* warning: volatile */
MV const int fixed = 3;                    /* warning: constant */
typedef MV int type;                       /* warning: ignored */
MV int sw, other;
MV int writes(int x)
{
    if (x)
        sw = x;                            /* warning: writes switch 'sw' */
    return sw;
}
void take(int *);
MV int hands_out(void)
{
    take(&sw);                             /* warning: takes the address of switch 'sw' */
    return sw;
}
MV int table(int n)                        /* warning: addresses of its labels */
{
    static const void *const t[] = {&&a, &&b};
    goto *t[n];
a:  return sw;
b:  return other;
}
MV int defines(void)                       /* warning: asm that defines a symbol */
{
    __asm__ volatile("defined_here: nop");
    return sw;
}
__attribute__((multiverse(("bind", "sw", "nothing")))) int binds(void) { return sw + other; } /* warning: bound to 'nothing' */
__attribute__((multiverse(("values", 1, 2, 3, 4, 5, 6, 7, 8, 9)))) int nine;
__attribute__((multiverse(("values", 1, 2, 3, 4, 5, 6, 7, 8, 9)))) int more;
MV int many(int x) { return x * nine + more; } /* warning: would have 81 variants, more than 64 */
static inline MV int inlined(void) { return sw; }
MV int calls_inlined(void) { return inlined() + sw; }
static int without(void) { return sw; }
MV int named(void) __attribute__((alias("without")));  /* warning: 'named' is an alias of a function without it */
static MV int refers(void) __attribute__((weakref("elsewhere"))); /* what `elsewhere' is, its own unit knows */
MV int with(void) { return sw; }
MV int renamed(void) __attribute__((alias("with")));
MV int renamed_again(void) __attribute__((alias("renamed")));
extern MV int sw_too __attribute__((alias("sw")));
int refer(void) { return refers() + named() + renamed_again(); }
