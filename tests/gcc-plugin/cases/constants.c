/* SPDX-License-Identifier: MIT
 *
 * Run-time constants: every width, sign and kind.  A read is a load until a commit, then the
 * committed value whatever the variable holds, then a load again.  A failure means a site that was
 * not made, an immediate of the wrong width or sign, or a load that was lost.
 * compilers: gcc g++
 */
#include "../descriptors.h"
#include <multiverse.h>
#include <stdbool.h>
#include <string.h>
#define K __attribute__((multiverse("constant")))
#define NOINLINE __attribute__((noinline, noclone))

K bool flag;
K unsigned char octet;
K signed char small;
K unsigned short half;
K short shalf;
K unsigned wide;
K int swide;
K unsigned long long big;
K long long sbig;
enum mode { FAST = -2, PLAIN, SLOW = 7 };
K enum mode mode;
K char *base;
K int (*fn)(int);
static K long hidden = 5;
__attribute__((multiverse("constant", "tracked"))) int tracked = 1;
__attribute__((multiverse)) int plain; /* a variation point reads both */
K int written = 1;

/* Writers are alone: a function that writes or hands out a constant loads it. */
NOINLINE void set_all(int i)
{
    flag = i & 1; octet = 250 + i; small = -100 - i; half = 65000 + i; shalf = -30000 - i;
    wide = 0xfffffff0u + i; swide = -5 - i; big = 0x123456789abcdef0ull + i; sbig = -0x123456789abcll - i;
    mode = i & 1 ? SLOW : FAST; base = (char *)(0x7f0011223344ul + i); hidden = 77 + i;
}
NOINLINE bool r_flag(void) { return flag; }
NOINLINE unsigned r_octet(void) { return octet; }
NOINLINE int r_small(void) { return small; }
NOINLINE unsigned r_half(void) { return half; }
NOINLINE long r_shalf(void) { return shalf; }
NOINLINE unsigned long r_wide(void) { return wide; }
NOINLINE long r_swide(void) { return swide; }
NOINLINE unsigned long long r_big(void) { return big; }
NOINLINE long long r_sbig(void) { return sbig; }
NOINLINE int r_mode(void) { return mode; }
NOINLINE char *r_base(int i) { return base + i; }
NOINLINE long r_hidden(void) { return hidden; }
NOINLINE int r_tracked(void) { return tracked; }
NOINLINE int r_call(int x) { return fn(x) + 1; }
NOINLINE int r_tail(int x) { return fn(x); }
NOINLINE unsigned r_atomic(void) { return __atomic_load_n(&wide, __ATOMIC_RELAXED); }
/* Many registers: the constants stay live over a call. */
NOINLINE unsigned long r_many(unsigned long x)
{
    unsigned long a = wide, b = big, c = octet, d = half, e = hidden, f = (unsigned)swide;
    x += r_octet();
    return x * (a ^ b) + (c << 3) - d * e + f + (unsigned long)r_wide();
}
NOINLINE unsigned long r_loop(const unsigned long *p, unsigned n)
{
    unsigned long s = 0;
    for (unsigned i = 0; i < n; i++)
        s += (p[i] & big) >> (octet & 7);
    return s;
}
NOINLINE int r_written(int v) { int before = written; written = v; return before * 100 + written; }
__attribute__((multiverse)) NOINLINE int point(int x) { return plain ? x * (int)wide : x + (int)wide; }

static int inc(int x) { return x + 1; }
static int dec(int x) { return x - 1; }
static NOINLINE void set_fn(int (*f)(int)) { fn = f; }
static NOINLINE int commit_tracked(int state) { multiverse_bind(&tracked, state); return multiverse_commit_refs(&tracked); }
static NOINLINE void set_tracked(int v) { tracked = v; }
static NOINLINE int commit_big(void) { return multiverse_commit_refs(&big); }
static NOINLINE int revert_big(void) { return multiverse_revert_fn(&big); }

struct all { unsigned long v[19]; };
static NOINLINE struct all read_all(void)
{
    unsigned long p[3] = {~0ul, 0x5555, 0x8000000000000000ul};
    struct all a = {{r_flag(), r_octet(), (unsigned long)r_small(), r_half(), (unsigned long)r_shalf(), r_wide(),
                     (unsigned long)r_swide(), r_big(), (unsigned long)r_sbig(), (unsigned long)r_mode(),
                     (unsigned long)r_base(3), (unsigned long)r_hidden(), (unsigned long)r_tracked(), (unsigned long)r_call(5),
                     (unsigned long)r_tail(6), r_atomic(), r_many(12345), r_loop(p, 3), (unsigned long)point(3)}};
    return a;
}
static int same(struct all a, struct all b) { return !memcmp(&a, &b, sizeof a); }

int main(void)
{
    unsigned width, flags;
    const char *name;
    struct all a, b;

    descriptors_read();
    CHECK(count_reads() >= 20);
    CHECK(find_switch(&big, &width, &flags, &name) && width == 8 && (flags & 16) && !strcmp(name, "big"));
    for (int i = 0; i < 4; i++) {
        set_all(i);
        set_fn(i & 1 ? inc : dec);
        a = read_all(); /* loads, of what was committed before if anything was */
        CHECK(multiverse_commit() > 0);
        b = read_all();
        CHECK(same(a, b) == !(i & 1));
        a = b;
        CHECK(r_big() == 0x123456789abcdef0ull + i && r_sbig() == -0x123456789abcll - i);
        CHECK(r_small() == -100 - i && r_octet() == 250u + i && r_shalf() == -30000 - i);
        CHECK(r_half() == 65000u + i && r_wide() == 0xfffffff0u + i && r_swide() == -5 - i);
        CHECK(r_base(1) == (char *)(0x7f0011223344ul + i) + 1 && r_mode() == (i & 1 ? SLOW : FAST));
        CHECK(r_call(5) == (i & 1 ? 7 : 5) && r_tail(5) == (i & 1 ? 6 : 4) && r_flag() == (i & 1));
        set_all(i + 1);
        set_fn(i & 1 ? dec : inc);
        b = read_all();
        CHECK(same(a, b)); /* the code holds the values */
        if (i & 1) { /* else one commit follows the other */
            CHECK(multiverse_revert() > 0);
            b = read_all();
            CHECK(b.v[7] == 0x123456789abcdef0ull + i + 1 && b.v[1] == 250u + i + 1 && b.v[13] == 5);
        }
    }
    CHECK(multiverse_revert() == 0);

    /* One alone; nothing to do; its value changes. */
    set_all(0);
    CHECK(commit_big() == 1 && commit_big() == 0);
    set_all(2);
    CHECK(r_big() == 0x123456789abcdef0ull && r_wide() == 0xfffffff2u);
    CHECK(commit_big() == 1 && r_big() == 0x123456789abcdef2ull);
    const struct multiverse_info_fn *info = multiverse_info_fn((void *)&big);
    CHECK(info && info->is_constant && !info->is_pointer && info->active == (void *)&big && info->n_callsites >= 1 && !strcmp(info->name, "big"));
    CHECK(multiverse_is_committed((void *)&big) == 1);
    set_all(3);
    CHECK(revert_big() == 1 && r_big() == 0x123456789abcdef3ull);

    /* Unbound until it is bound. */
    multiverse_commit();
    set_tracked(2);
    CHECK(r_tracked() == 2);
    CHECK(commit_tracked(1) == 1);
    set_tracked(3);
    CHECK(r_tracked() == 2);
    CHECK(commit_tracked(0) == 1 && r_tracked() == 3);

    /* What a function writes it reads. */
    CHECK(r_written(4) == 104 && multiverse_commit() >= 0 && r_written(5) == 405);
    return 0;
}
