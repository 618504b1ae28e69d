/* SPDX-License-Identifier: MIT
 *
 * Calls that the plugin makes inline ones unasked: which, and which not; and what they compute,
 * before, after and between commits, also while a signal writes the switch.  A failure means a call
 * that grew for nothing, or against the program's word, a wrong arm, or a switch that is not read anew.
 * compilers: gcc g++
 * not for: -Og -O1
 */
#include "../descriptors.h"
#include <multiverse.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>
#define MV __attribute__((multiverse))
#define NOINLINE __attribute__((noinline, noclone))
#define LOOP for (int i = 0; i < n; i++)

MV bool on;
MV int level;
MV __attribute__((multiverse("values", 1, 2, 3, 4, 5))) int many;
static struct { long other; MV short part; } whole;
unsigned long trace;

/* Chosen: in a loop, which may be in a function that was inlined early. */
MV static void mark(unsigned long n) { if (on) trace = trace * 31 + n; }
MV static bool of_part(void) { return whole.part == 2; }
MV static void either(int x) { if (level > 3) trace += x; else if (level < 0) trace ^= x; }
NOINLINE void marks(int n) { LOOP { mark(i); trace++; } }
NOINLINE void eithers(int n) { LOOP { either(i); trace *= 5; } }
static inline int helper(int n) { int s = 0; LOOP s += of_part() ? i : s ^ 3; return s; }
NOINLINE int parts(int n) { return helper(n); }
/* Outside of loops what a branch decides. */
#define HOOK(name) void name(int x) { if (on) trace += x; }
MV static HOOK(once) NOINLINE void calls_once(int x) { once(x); trace *= 3; once(x + 1); }

/* Not: of more ways outside of loops, on cold ways, in callers for size, through a pointer, */
#define CALLS(what) { LOOP { what; trace *= 3; } }
#define SIDED(name) void name(int x) { if (level > 3) trace += x; else if (level < 0) trace ^= x; }
MV static SIDED(sided) void calls_sided(int x) { sided(x); trace *= 3; }
MV static SIDED(seldom) NOINLINE void calls_seldom(int n) CALLS(if (__builtin_expect(i == 77, 0)) seldom(i))
MV static HOOK(frosty) __attribute__((cold)) NOINLINE void calls_frosty(int n) CALLS(frosty(i))
MV static HOOK(compact) __attribute__((optimize("Os"))) NOINLINE void calls_compact(int n) CALLS(compact(i))
MV static HOOK(reached)
static void (*volatile pointer)(int) = reached;
NOINLINE void calls_reached(int n) CALLS(pointer(i))
/* of functions that shall not be inlined, are large, have too many bodies, or may be another's. */
MV NOINLINE static HOOK(apart) NOINLINE void calls_apart(int n) CALLS(apart(i))
MV static void large(int x)
{
    if (on)
        trace = trace * 31 + (x ^ (trace >> 7)) % 1000 + (trace & 15) * (x | 3) - (trace >> 9) % 77 + (x ^ 77) * (x + 3) +
                (trace >> 11) % 79 * (x + 5) + (trace ^ x) % 83 * (x + 7) + (trace & 85) * (x ^ 9) + (trace >> 3) % 91;
}
NOINLINE void calls_large(int n) CALLS(large(i))
MV static void of_many(int x) { trace += x * many; }
NOINLINE void calls_of_many(int n) CALLS(of_many(i))
MV HOOK(exported) NOINLINE void calls_exported(int n) CALLS(exported(i))
#ifdef __cplusplus
MV inline HOOK(shared) NOINLINE void calls_shared(int n) CALLS(shared(i))
#endif
/* What computes may have become one instruction at its call. */
MV static int scale(int x) { return level > 3 ? x * 3 : level > 0 ? x + 1 : x - 1; }
NOINLINE int scales(int n) { int s = 0; LOOP s = s * 7 + scale(i); return s; }
MV static int of_kind(void) { return level > 3 ? 7 : level > 0 ? 2 : 3; }
NOINLINE int kinds(int n) { int s = 0; LOOP s = s * 7 + of_kind() * i; return s; }
/* No more than some of a caller. */
MV static void often(void) { if (on) trace += 3; }
#define O4 often(); often(); often(); often();
NOINLINE void calls_often(int n) { LOOP { O4 O4 O4 O4 O4 O4 O4 O4 } }

/* Nothing else in the loop lets the compiler see that the switch changes. */
MV static bool is_on(void) { return on; }
NOINLINE void spins(void) { while (!is_on()); }
static void stop(int number) { on = true; (void)number; }

static unsigned sites(const void *function)
{
    unsigned n = 0;
    while (inline_call(function, n))
        n++;
    return n;
}

#define N 15
static void all(long *v)
{
    int i = 0;
    trace = 1;
    marks(9); v[i++] = trace; eithers(9); v[i++] = trace; v[i++] = parts(7); calls_once(6); calls_sided(5); v[i++] = trace;
    calls_seldom(90); v[i++] = trace; calls_frosty(5); v[i++] = trace; calls_compact(5); v[i++] = trace;
    calls_reached(5); v[i++] = trace; calls_apart(5); v[i++] = trace; calls_large(6); v[i++] = trace;
    calls_of_many(9); v[i++] = trace; calls_exported(8); v[i++] = trace; calls_often(2); v[i++] = trace;
    v[i++] = scales(8); v[i++] = kinds(8);
    CHECK(i == N);
}
static NOINLINE void set(int i)
{
    on = i & 1; level = (int[]){-5, 0, 1, 3, 4, 9}[i % 6]; many = 1 + i % 5; whole.part = i % 4;
}

int main(void)
{
    long a[N], b[N], c[N];
    descriptors_read();
#if defined __OPTIMIZE__ && !defined __OPTIMIZE_SIZE__
    CHECK(sites((void *)mark) && sites((void *)either) && sites((void *)of_part) && sites((void *)is_on));
    CHECK(sites((void *)once) == 2);
    CHECK(sites((void *)often) == 16);
#if defined __PIC__ && !defined __PIE__
    CHECK(sites((void *)exported) <= 1); /* with -fvisibility=hidden */
#else
    CHECK(sites((void *)exported));
#endif
#else
    CHECK(!sites(NULL));
#endif
    CHECK(!sites((void *)sided) && !sites((void *)seldom) && !sites((void *)frosty) && !sites((void *)compact));
    CHECK(!sites((void *)reached) && !sites((void *)apart) && !sites((void *)large) && !sites((void *)of_many));
#ifdef __cplusplus
    CHECK(!sites((void *)shared));
#endif
    CHECK(!sites((void *)scale) && !sites((void *)of_kind));
    for (int i = 0; i < 12; i++) {
        set(i);
        all(a); /* reads */
        CHECK(multiverse_commit() >= 0 && multiverse_status()->n_refused == 0);
        all(b);
        set(i + 1);
        many = 1 + i % 5; /* without variants for other values */
        whole.part = i % 4;
        all(c);
        CHECK(!memcmp(a, b, sizeof a) && !memcmp(a, c, sizeof a));
        CHECK(multiverse_revert() >= 0);
        all(c);
        CHECK(memcmp(a, c, sizeof a));
    }
#ifndef __SANITIZE_THREAD__ /* it puts signals off */
    on = false;
    signal(SIGALRM, stop);
    ualarm(5000, 0);
    spins();
#endif
    return 0;
}
