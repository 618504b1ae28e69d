/* SPDX-License-Identifier: MIT
 *
 * Wrong use is an error, at the line of the declaration.
 * options: -ferror-limit=0
 */
#define MV __attribute__((multiverse))
MV float real;                             /* error: neither an integer */
MV struct { int a; } record;               /* error: neither an integer */
MV int *address;                           /* error: neither an integer */
MV int array[4];                           /* error: neither an integer */
MV __int128 wide;                          /* error: 1 to 8 bytes */
MV _Atomic int atomic;                     /* error: it is '_Atomic' */
MV __thread int threaded;                  /* error: thread-local */
extern __thread int threaded2 MV;          /* error: thread-local */
MV _BitInt(7) odd;                         /* error: padding bits */
int parameter(MV int p) { return p; }      /* error: parameter 'p' */
void locals(void)
{
    MV int automatic = 1;                  /* error: local to a function */
    static MV int kept;                    /* error: local to a function */
    (void)automatic; (void)kept;
}
__attribute__((multiverse("value"))) int word;            /* error: unknown argument 'value' */
__attribute__((multiverse(1, 2))) int bare;               /* error: must begin with a string */
__attribute__((multiverse(("values", 1.5)))) int fraction;/* error: not an integer constant */
__attribute__((multiverse("values", bare))) int variable; /* error: not an integer constant */
__attribute__((multiverse("values"))) int none;           /* error: without a value */
__attribute__((multiverse(("values", 300)))) unsigned char big; /* error: does not fit */
__attribute__((multiverse("values", -1))) unsigned negative;    /* error: does not fit */
__attribute__((multiverse("constant", "values", 1))) int valued;      /* error: nothing is specialised */
__attribute__((multiverse("tracked"))) void tracked_function(void) {} /* error: must be "bind" */
__attribute__((multiverse("bind"))) void binds_nothing(void) {}       /* error: without a switch */
__attribute__((multiverse("bind", 3))) void binds_number(void) {}     /* error: must be "bind" */
struct holder { __attribute__((multiverse("constant"))) double member; };    /* error: neither an integer */
struct holds { __attribute__((multiverse("constant", "value"))) int member; }; /* error: unknown argument 'value' */
static inline __attribute__((always_inline)) MV int forced(void) { return 1; } /* error: always_inline */
__attribute__((naked)) MV void bare_function(void) { __asm__("ret"); }   /* error: naked */
