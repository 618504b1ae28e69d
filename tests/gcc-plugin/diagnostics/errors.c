/* SPDX-License-Identifier: MIT
 *
 * Wrong use is an error, at the line of the declaration; never a crash of the
 * compiler, never accepted in silence.
 */
#define MV __attribute__((multiverse))
MV float real;                             /* error: neither an integer */
MV struct { int a; } record;               /* error: neither an integer */
MV int *address;                           /* error: neither an integer */
MV int array[4];                           /* error: neither an integer */
MV int (*pointers[4])(void);               /* error: neither an integer */
MV __int128 wide;                          /* error: 1 to 8 bytes */
MV _Complex int complex;                   /* error: neither an integer */
MV _Atomic int atomic;                     /* error: it is '_Atomic' */
MV _Atomic(_Bool) atomic_bool;             /* error: it is '_Atomic' */
MV __thread int threaded;                  /* error: thread-local */
__thread MV int threaded2;                 /* error: thread-local */
extern __thread int threaded3 MV;          /* error: thread-local */
MV __thread int (*threaded_pointer)(void); /* error: thread-local */
struct holder {
    MV int member;
    int bits : 3 MV;                       /* error: member 'bits' .* it is a bit-field */
    MV float part;                         /* error: neither an integer */
    MV int (*called)(void);                /* error: member 'called' .* a pointer to a function */
    __attribute__((multiverse("tracked"))) char *data; /* error: neither an integer */
    __attribute__((multiverse("constant"))) char *constant_data;
};
union either {
    MV int number;                         /* error: member 'number' .* a member of a union */
    float real;
};
int parameter(MV int p) { return p; }      /* error: parameter 'p' */
void locals(void)
{
    MV int automatic = 1;                  /* error: local to a function */
    static MV int kept;                    /* error: local to a function */
    MV register int reg = 2;               /* error: local to a function */
    (void)automatic; (void)kept; (void)reg;
}
__attribute__((multiverse("value"))) int word;            /* error: unknown argument 'value' */
__attribute__((multiverse(1, 2))) int bare;               /* error: must begin with a string */
__attribute__((multiverse(("values", 1.5)))) int fraction;/* error: not an integer constant */
__attribute__((multiverse("values", word))) int variable;  /* error: not an integer constant */
__attribute__((multiverse("values"))) int none;           /* error: without a value */
__attribute__((multiverse(("values", 300)))) unsigned char big; /* error: does not fit */
__attribute__((multiverse(("values", -1)))) unsigned negative;  /* error: does not fit */
__attribute__((multiverse("tracked"))) void tracked_function(void) {} /* error: or '"bind", "switch" */
__attribute__((multiverse("bind"))) void binds_nothing(void) {}       /* error: without a switch */
__attribute__((multiverse(("bind", 3)))) void binds_number(void) {}   /* error: or '"bind", "switch" */
__attribute__((multiverse("tracked"))) int (*pointer)(void);          /* error: takes no argument */
__attribute__((multiverse("constant"))) float real_constant;          /* error: neither an integer */
__attribute__((multiverse("constant", "values", 1))) int valued;      /* error: nothing is specialised */
__attribute__((multiverse("inline", "bind"))) void inline_binds(void) {} /* error: without a switch */
__attribute__((multiverse("inline", "tracked"))) void inline_tracked(void) {} /* error: or '"bind", "switch" */
__attribute__((multiverse("inline"))) int inline_switch;               /* error: unknown argument 'inline' */
__attribute__((multiverse("constant"))) void constant_function(void) {} /* error: or '"bind", "switch" */
__attribute__((multiverse("tracked"))) char *tracked_data;            /* error: neither an integer */
static inline __attribute__((always_inline)) MV int forced(void) { return 1; } /* error: always_inline */
__attribute__((naked)) MV void bare_function(void) { __asm__("ret"); }   /* error: naked */
