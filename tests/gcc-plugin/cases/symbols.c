/* SPDX-License-Identifier: MIT
 *
 * Variants that differ only in which symbol, string, constant or static variable
 * they use are different; variants that do the same share one body.  A failure
 * means that the comparison of bodies joins too much (a wrong result) or sees no
 * equality at all.
 * compilers: gcc g++
 */
#include "../descriptors.h"
#include <string.h>
#include <multiverse.h>
#define MV __attribute__((multiverse))
#define NOINLINE __attribute__((noinline, noclone, noipa))

MV int sw;
int trace;
NOINLINE int do_a(int x) { trace = 1; return x; }
NOINLINE int do_b(int x) { trace = 2; return x; }
int glob_a = 1, glob_b = 2;
MV int calls(int x) { if (sw) return do_a(x); return do_b(x); }
MV void calls_void(void) { if (sw) do_a(0); else do_b(0); }
MV int *addresses(void) { return sw ? &glob_a : &glob_b; }
MV int loads(void) { return sw ? glob_a : glob_b; }
MV void stores(int x) { if (sw) glob_a = x; else glob_b = x; }
MV const char *strings(void) { return sw ? "yes" : "nay"; }
MV int (*functions(void))(int) { return sw ? do_a : do_b; }
MV int statics(void) { static int a, b; return sw ? ++a : (b += 10); }
MV float constants(void) { return sw ? 1.0f : -0.0f; }
MV int fields(int *p) { return sw ? p[0] : p[1]; }
MV int order(int a, int b) { return sw ? a - b : b - a; }
MV int locals(int n) { int a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8}; volatile int i = n & 3; return sw ? a[i] : b[i]; }
MV int volatiles(volatile int *v, int *p) { return sw ? *v + *v : *p + *p; }
MV int shifts(int x) { return sw ? x >> 1 : (int)((unsigned)x >> 1); }
MV void asms(void) { if (sw) __asm__ volatile("# a"); else __asm__ volatile("# b"); }
MV long widths(short *p, int x) { return sw ? (signed char)x : (short)x; }
MV int builtins(int x) { return sw ? __builtin_popcount(x) : __builtin_clz(x | 1); }
MV int switches(int x) { if (sw) switch (x) { case 1: return 5; case 2: return 9; case 9: return 1; default: return 0; }
                         switch (x) { case 1: return 5; case 3: return 9; case 9: return 1; default: return 0; } }

/* sw is 0, 1, 2 or 3; 1 and 2 do the same, 3 and 0 do. */
__attribute__((multiverse("values", 0, 1, 2, 3))) int quad;
MV int shared(int x) { if (quad == 1 || quad == 2) return do_a(x); return do_b(x + 1); }
__attribute__((multiverse("values", 0, 1, 2, 3, 4, 5))) unsigned range;
MV int ranged(int x) { return range < 3 ? x : x * 3; }
MV int looped(int n) { int s = 0; for (int i = 0; i < n; i++) s += range >= 3 ? i : -i; return s; }

#define BODIES(fn, n) \
    do { \
        const struct found_function *f_ = find_function((void *)fn); \
        CHECK(f_ && count_bodies(f_) == (n)); \
    } while (0)

static void both(void)
{
    int a[2] = {3, 4};
    volatile int v = 6;
    CHECK(((__typeof__(&calls))variant_of((void *)calls))(5) == calls(5));
    int want = (calls(1), trace), got = (((__typeof__(&calls))variant_of((void *)calls))(1), trace);
    CHECK(want == got);
    calls_void(); want = trace; ((void (*)(void))variant_of((void *)calls_void))(); CHECK(trace == want);
    CHECK(((__typeof__(&addresses))variant_of((void *)addresses))() == addresses());
    CHECK(((__typeof__(&loads))variant_of((void *)loads))() == loads());
    CHECK(!strcmp(((__typeof__(&strings))variant_of((void *)strings))(), strings()));
    CHECK(((__typeof__(&functions))variant_of((void *)functions))() == functions());
    CHECK(((__typeof__(&statics))variant_of((void *)statics))() + (sw ? 1 : 10) == statics());
    float f = ((__typeof__(&constants))variant_of((void *)constants))(), g = constants();
    CHECK(!memcmp(&f, &g, sizeof f));
    CHECK(((__typeof__(&fields))variant_of((void *)fields))(a) == fields(a));
    CHECK(((__typeof__(&order))variant_of((void *)order))(9, 4) == order(9, 4));
    CHECK(((__typeof__(&locals))variant_of((void *)locals))(2) == locals(2));
    CHECK(((__typeof__(&volatiles))variant_of((void *)volatiles))(&v, a) == volatiles(&v, a));
    CHECK(((__typeof__(&shifts))variant_of((void *)shifts))(-8) == shifts(-8));
    CHECK(((__typeof__(&widths))variant_of((void *)widths))(0, 0x1234) == widths(0, 0x1234));
    CHECK(((__typeof__(&builtins))variant_of((void *)builtins))(12) == builtins(12));
    for (int i = 0; i < 11; i++)
        CHECK(((__typeof__(&switches))variant_of((void *)switches))(i) == switches(i));
    glob_a = glob_b = 0;
    ((__typeof__(&stores))variant_of((void *)stores))(7);
    CHECK(glob_a == (sw ? 7 : 0) && glob_b == (sw ? 0 : 7));
}

int main(void)
{
    descriptors_read();
    for (sw = 0; sw < 2; sw++)
        both();
    BODIES(calls, 2); BODIES(calls_void, 2); BODIES(addresses, 2); BODIES(loads, 2);
    BODIES(stores, 2); BODIES(strings, 2); BODIES(functions, 2); BODIES(statics, 2);
    BODIES(constants, 2); BODIES(fields, 2); BODIES(order, 2); BODIES(locals, 2);
    BODIES(volatiles, 2); BODIES(shifts, 2); BODIES(asms, 2); BODIES(builtins, 2); BODIES(switches, 2);
#ifdef __OPTIMIZE__
    BODIES(shared, 2);
    BODIES(ranged, 2);
    BODIES(looped, 2);
    CHECK(find_function((void *)shared)->n_variants == 3); /* 0; 1..2; 3 */
    CHECK(find_function((void *)ranged)->n_variants == 2); /* 0..2; 3..5 */
#endif
    for (quad = -1; quad < 5; quad++)
        CHECK(((__typeof__(&shared))variant_of((void *)shared))(5) == shared(5));
    for (range = 0; range < 8; range++) {
        CHECK(((__typeof__(&ranged))variant_of((void *)ranged))(5) == ranged(5));
        CHECK(((__typeof__(&looped))variant_of((void *)looped))(9) == looped(9));
        CHECK((variant_of((void *)ranged) == (void *)ranged) == (range > 5));
    }
    /* The same with a real commit, as in the reference's README. */
    sw = 1; CHECK(multiverse_commit() >= 0); sw = 0;
    calls_void(); CHECK(trace == 1);
    CHECK(multiverse_commit_refs(&sw) > 0); sw = 1;
    calls_void(); CHECK(trace == 2);
    CHECK(multiverse_revert() > 0);
    calls_void(); CHECK(trace == 1);
    return 0;
}
