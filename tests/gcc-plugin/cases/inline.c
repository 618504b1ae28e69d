/* SPDX-License-Identifier: MIT
 *
 * Inline calls: what a function that is multiverse("inline") computes, before, after and between
 * commits, in all kinds of callers; and the bytes of the calls.  A failure means an arm of the wrong
 * variant, a result or a register that was lost between the arms, or a site without its record.
 * compilers: gcc g++
 * not for: -Og
 */
#include "../descriptors.h"
#include <multiverse.h>
#include <stdbool.h>
#include <string.h>
#define MV __attribute__((multiverse))
#define INLINE __attribute__((multiverse("inline")))
#define NOINLINE __attribute__((noinline, noclone))

MV bool on;
MV int level;
MV __attribute__((multiverse("values", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10))) int many;
__attribute__((multiverse("tracked"))) bool quiet;
unsigned long trace;

/* Nothing, or something; in a loop, twice, and as a tail call. */
INLINE static void mark(unsigned long n) { if (on) trace = trace * 31 + n; }
NOINLINE void in_loop(int n) { for (int i = 0; i < n; i++) { mark(i); trace++; mark(i + 7); } }
NOINLINE void unrolled(void) { for (int i = 0; i < 4; i++) mark(i); }
NOINLINE void tail(unsigned long n) { mark(n); }
NOINLINE void inlined_here(int n) { tail(n); mark(n); }
static inline void helper(unsigned long n) { mark(n + 1); }
NOINLINE void first_caller(void) { helper(1); }
NOINLINE void second_caller(void) { helper(2); helper(3); }

/* Three ranges, with a result. */
INLINE static int scale(int x) { return level > 3 ? x * 3 : level > 0 ? x + 1 : x - 1; }
NOINLINE int result(int x) { int a = scale(x), b = scale(x + 100); return a * 1000 + b - x; }
NOINLINE int nested(int x) { return scale(scale(x) + scale(scale(x + 1))); }
NOINLINE int condition(int x) { if (scale(x) > 10 && scale(x - 4) < 20) return scale(-x); return x; }
/* Many registers live over the call, doubles among them. */
NOINLINE double registers(double a, double b, int c, int d, int e, long f)
{
    int k = scale(c);
    return a * b + c * d - e + (double)f * k + scale(d) * a;
}

/* A structure through memory; a wide integer in two registers; a double. */
struct big { long v[6]; };
INLINE static struct big make(long x) { struct big b = {{x, 1, 2, 3, 4, 5}}; if (on) b.v[5] += 7; return b; }
NOINLINE long of_big(long x) { struct big b = make(x), c = make(x + 1); return b.v[0] + b.v[5] * 10 + c.v[0] * 100 + c.v[5] * 1000; }
INLINE static __int128 wide(__int128 x) { return on ? x << 3 : x; }
NOINLINE long of_wide(long x) { return (long)(wide((__int128)x << 62) >> 62); }
INLINE static double real(double x) { return on ? x / 2 : x; }
NOINLINE double of_real(double x) { return real(x) + real(x + 1) * 4; }
INLINE static int varying(int n, ...)
{
    __builtin_va_list list;
    int sum = on;
    __builtin_va_start(list, n);
    while (n--)
        sum += __builtin_va_arg(list, int);
    __builtin_va_end(list);
    return sum;
}
NOINLINE int of_varying(int x) { return varying(3, x, 2, 3); }

/* More variants than there are arms; an unbound switch; calls of itself. */
INLINE static int of_many(int x) { return x * many + (many == 4); }
NOINLINE int call_many(int x) { return of_many(x) * 3; }
INLINE static int hushed(int x) { return quiet ? x : x * 2; }
NOINLINE int call_hushed(int x) { return hushed(x); }
INLINE static int down(int x) { return x <= 0 ? 0 : (on ? 2 : 1) + down(x - 1); }
NOINLINE int call_down(int x) { return down(x); }

/* Others may take its place, or its address is taken: called, and right. */
INLINE int exported(int x) { return on ? x + 5 : x; }
NOINLINE int call_exported(int x) { return exported(x); }
static int (*volatile pointer)(int) = scale;
/* Who calls is a variation point, too, or an inline one. */
MV NOINLINE int point(int x) { return on ? scale(x) : -scale(x); }
INLINE static int outer(int x) { return on ? scale(x) * 2 : x; }
NOINLINE int call_outer(int x) { return outer(x) + 1; }
/* What is compared, in all widths. */
MV static signed char in8;
MV static unsigned short in16;
MV static long in64;
INLINE static int of_byte(int x) { return in8 == -3 ? x * 2 : x + 1; }
INLINE static int of_word(int x) { return in16 == 65535 ? x * 3 : x + 2; }
INLINE static int of_quad(int x) { return in64 != -7 ? x * 5 : x + 3; }
NOINLINE int widths(int x) { return of_byte(x) + of_word(x) * 100 + of_quad(x) * 10000; }
/* The switch changes before it is asked, and between calls. */
NOINLINE void turn_on(void) { on = true; }
INLINE static int late(int x) { turn_on(); return on ? x : -x; }
NOINLINE int call_late(int x) { return late(x); }
NOINLINE void writes(void) { on = true; mark(1); on = false; mark(2); on = true; mark(3); on = false; }
/* Labels of a goto, static locals, an asm. */
INLINE static int counting(void) { static int n; return on ? ++n : n; }
NOINLINE int call_counting(void) { return counting() * 10 + counting(); }
NOINLINE int by_goto(int x)
{
    static void *const labels[] = {&&a, &&b, &&c};
    goto *labels[x % 3];
a:  return scale(x) + 1;
b:  return scale(x) + 2;
c:  return scale(x) + 3;
}
/* A cold path, in a section of its own. */
NOINLINE int cold_path(int x)
{
    if (__builtin_expect_with_probability(x == 77, 0, 1.0)) {
        mark(3);
        return scale(x) + (int)trace;
    }
    return scale(x);
}

#define N 25
static void all(long *v)
{
    int i = 0;
    trace = 1;
    in_loop(3); v[i++] = trace; unrolled(); v[i++] = trace; tail(9); inlined_here(4); v[i++] = trace;
    first_caller(); second_caller(); v[i++] = trace;
    v[i++] = result(5); v[i++] = nested(8); v[i++] = condition(7); v[i++] = condition(12);
    v[i++] = (long)registers(2, 3, 4, 5, 6, 7); v[i++] = of_big(3); v[i++] = of_wide(5); v[i++] = (long)of_real(6);
    v[i++] = of_varying(4); v[i++] = call_many(6); v[i++] = call_hushed(9); v[i++] = call_down(6);
    v[i++] = call_exported(2); v[i++] = pointer(9); v[i++] = point(4); v[i++] = call_outer(5);
    v[i++] = by_goto(1) + by_goto(2) * 100; v[i++] = cold_path(77); v[i++] = cold_path(5);
    v[i++] = trace; v[i++] = widths(7);
    CHECK(i == N);
}
static int same(const long *a, const long *b)
{
    int n = 0;
    for (int i = 0; i < N; i++)
        if (a[i] != b[i])
            n++, fprintf(stderr, "  %d: %ld, %ld\n", i, a[i], b[i]);
    return !n;
}
static NOINLINE void set(int i)
{
    on = i & 1; level = (int[]){-5, 0, 1, 3, 4, 9}[i % 6]; many = 1 + i % 10; quiet = i & 2;
    in8 = i % 3 ? i : -3; in16 = i & 2 ? 65535 : 65534; in64 = i & 4 ? -7 : i;
}
static unsigned char before[6];

int main(void)
{
    long a[N], b[N];
    const unsigned char *site;
    static unsigned char nop[6] = {0x66, 0x0f, 0x1f, 0x44, 0, 0};

    descriptors_read();
#ifdef __OPTIMIZE__
    /* Static functions have sites, and who calls them twice two. */
    site = inline_call((void *)scale, 2);
    CHECK(site && inline_call((void *)mark, 3));
#if !defined __PIC__ || defined __PIE__
    CHECK(inline_call((void *)exported, 0));
#endif
#else
    CHECK(!inline_call((void *)scale, 0));
#endif
    site = inline_call((void *)mark, 0);
    if (site)
        memcpy(before, site, 6);
    CHECK(call_late(5) == 5);
    trace = 0;
    writes();
    CHECK(trace == 1 * 31 + 3);
    for (int i = 0; i < 12; i++) {
        set(i);
        multiverse_bind(&quiet, i % 3 == 0);
        all(a); /* reads */
        CHECK(multiverse_commit() >= 0);
        CHECK(multiverse_status()->n_refused == 0);
        all(b);
        CHECK(same(a, b));
        if (site) {
            CHECK(before[0] == 0x0f && before[1] == 0x85); /* jne, behind a comparison */
            CHECK(on ? site[0] == 0xe9 : !memcmp(site, nop, 6));
        }
        set(i + 1); /* tracked or not: unbound is read */
        quiet = i & 2;
        all(b);
        if (i % 3)
            CHECK(same(a, b));
        CHECK(multiverse_revert() >= 0);
        if (site)
            CHECK(!memcmp(site, before, 6));
    }

    /* One function, one switch; how often; what is told. */
    set(0);
    CHECK(multiverse_commit_fn((void *)scale) == 1);
    if (site)
        CHECK(!memcmp(site, before, 6) && inline_call((void *)scale, 0)[0] == 0x0f);
    set(5);
    CHECK(result(5) == 4 * 1000 + 104 - 5);
    CHECK(multiverse_commit_fn((void *)scale) == 1 && result(5) == 15 * 1000 + 315 - 5);
    CHECK(multiverse_commit_fn((void *)scale) == 0 && multiverse_revert_fn((void *)scale) == 1);
    level = 0;
    CHECK(result(5) == 4 * 1000 + 104 - 5);
    CHECK(multiverse_commit_refs(&on) > 0 && multiverse_is_committed((void *)mark) == 1);
    if (site)
        CHECK(site[0] == 0xe9 && inline_call((void *)scale, 0)[0] == 0xe9);
    const struct multiverse_info_fn *info = multiverse_info_fn((void *)mark);
    CHECK(info && info->n_variants == 2 && !info->is_pointer && info->outcome == MULTIVERSE_CHANGED && !info->error);
#ifdef __OPTIMIZE__
    if (site)
        CHECK(info->n_callsites >= 8);
#endif
    CHECK(multiverse_info_var(&quiet)->n_functions == 1);
    CHECK(multiverse_revert() > 0);
    return 0;
}
