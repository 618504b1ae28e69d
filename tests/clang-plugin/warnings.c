/* SPDX-License-Identifier: MIT
 *
 * What clang's plugin does not do, and what has no or less effect, is a warning.
 */
#define MV __attribute__((multiverse))
MV volatile int unstable;                  /* warning: volatile */
MV const int fixed = 3;                    /* warning: constant */
typedef MV int type;                       /* warning: ignored */
MV int (*pointer)(void);                   /* warning: of function pointer 'pointer' ignored */
struct holder { MV int member; };          /* warning: of member 'member' ignored */
struct settings { __attribute__((multiverse("constant"))) int limit; }; /* warning: reads of 'limit' stay reads */
struct part { __attribute__((multiverse("constant"))) unsigned bits : 3; }; /* warning: of member 'bits' ignored */
__attribute__((multiverse("constant"))) unsigned size;         /* warning: reads of 'size' stay reads */
__attribute__((multiverse("inline"))) void in_line(void) {}    /* warning: "inline" .* ignored */
MV int sw, other;
MV int writes(int x)                       /* warning: 'writes' writes switch 'sw' */
{
    if (x)
        sw = x;
    return sw;
}
void take(int *);
MV int hands_out(void)                     /* warning: takes the address of switch 'sw' */
{
    take(&sw);
    return sw;
}
extern MV int sw_too __attribute__((alias("sw")));
MV int writes_alias(int x) { sw_too = x; return sw; } /* warning: writes switch 'sw' */
MV int by_asm(void)                        /* warning: takes the address of switch 'sw' */
{
    __asm__ volatile("incl %0" : "+m"(sw));
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
__attribute__((multiverse("bind", "sw", "nothing"))) int binds(void) { return sw + other; } /* warning: bound to 'nothing' */
__attribute__((multiverse("values", 1, 2, 3, 4, 5, 6, 7, 8, 9))) int nine;
__attribute__((multiverse("values", 1, 2, 3, 4, 5, 6, 7, 8, 9))) int more;
MV int many(int x) { return x * nine + more; } /* warning: would have 81 variants, more than 64 */
MV __attribute__((section(".text.mine"))) int placed(void) { return sw; } /* warning: in a section of its own */
MV __attribute__((patchable_function_entry(5))) int padded(void) { return sw; } /* warning: something else is patched */
static int without(void) { return sw; }
MV int named(void) __attribute__((alias("without")));  /* warning: 'named' is an alias of a function without it */
MV int with(void) { return sw; }
MV int renamed(void) __attribute__((alias("with")));
