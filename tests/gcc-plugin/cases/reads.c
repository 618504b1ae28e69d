/* SPDX-License-Identifier: MIT
 *
 * Every read of a constant is committed, or counted as generic: members of variables of this unit and
 * of another, near and far from the variable's beginning, in loops that keep its address in a
 * register, beside calls that keep it in another.  A failure means a read that no commit reaches and
 * that nobody hears of, or one that got another member's value.
 * compilers: gcc g++
 */
#include "../descriptors.h"
#include <errno.h>
#include <multiverse.h>
#include <string.h>
#define K __attribute__((multiverse("constant")))
#define NOINLINE __attribute__((noinline, noclone))

#define MEMBERS(X) X(unsigned char, a) X(signed char, b) X(unsigned short, c) X(short, d) X(int, e) \
    X(unsigned, f) X(long long, g) X(unsigned long, h)
#define BOTH(X) MEMBERS(X) X(int, far_e) X(long long, far_g) X(unsigned char, far_a) X(short, far_d)
struct set {
    int first;
#define MEMBER(type, name) K type name;
    MEMBERS(MEMBER)
    char gap[300];
    K int far_e;
    K long long far_g;
    K unsigned char far_a;
    K short far_d;
};
struct set here;
/* As good as in another unit: the compiler sees no definition. */
#ifdef __cplusplus
extern "C"
#else
extern
#endif
struct set there;
__asm__(".pushsection .bss\n.globl there\n.type there, @object\n.size there, 512\n.balign 16\nthere: .zero 512\n.popsection");
static struct set own;
K int written, copied;

NOINLINE int same(int x) { __asm__ volatile("" : "+r"(x)); return x; }

#define READERS(type, name) \
NOINLINE long once_##name(void) { return (long)(here.name + there.name * 3 + own.name * 5); } \
NOINLINE long loop_##name(int *p, int n) { long s = 0; for (int i = 0; i < n; i++) { p[i]++; s += (long)(here.name + there.name * 3 + own.name * 5); } return s; } \
NOINLINE long call_##name(int n) { long s = 0; for (int i = 0; i < n; i++) s += same(i) * 0 + (long)(here.name + there.name * 3 + own.name * 5); return s; }
BOTH(READERS)

/* Who only writes is no reader. */
static NOINLINE void fill(struct set *s, int v)
{
#define FILL(type, name) s->name = (type)(v + (int)sizeof(type));
    BOTH(FILL)
}
static NOINLINE void fill_all(int v) { fill(&here, v); fill(&there, v + 1); fill(&own, v + 2); written = copied = v; }

static void right(int v)
{
    int p[4] = {0};
#define RIGHT(type, name) { \
    int size = (int)sizeof(type); \
    long expected = (long)((type)(v + size) + (type)(v + 1 + size) * 3 + (type)(v + 2 + size) * 5); \
    CHECK(once_##name() == expected && loop_##name(p, 4) == 4 * expected && call_##name(3) == 3 * expected); }
    BOTH(RIGHT)
}

static NOINLINE int writes(int v) { int before = written; written = v; return before; }
static NOINLINE int part(void) { char c; memcpy(&c, &copied, 1); return c; }
struct copy { struct set s; };
static NOINLINE struct copy copies(void) { struct copy c; c.s = own; return c; }

static unsigned misses;
static void miss(const struct multiverse_info_fn *info, void *cookie)
{
    (void)cookie;
    misses += !strcmp(info->name, "written") && info->outcome == MULTIVERSE_GENERIC;
}

int main(void)
{
    const struct multiverse_status *status = multiverse_status();
    multiverse_on_miss(miss, NULL);
    descriptors_read();
    for (int v = 1; v < 70; v += 33) {
        fill_all(v);
        CHECK(multiverse_commit() > 0);
        status = multiverse_status();
        CHECK(status->n_refused == 0 && !strstr(multiverse_report(), "call site"));
        fill_all(v + 7);
        right(v);
        CHECK(multiverse_revert() > 0);
        right(v + 7);
    }
    /* Reads that stay loads: `written', `copied', and the twelve members of `own'. */
    CHECK(multiverse_commit() > 0);
    status = multiverse_status();
    CHECK(status->n_generic == 14);
    CHECK(strstr(multiverse_report(), "written: some reads of it stay loads") != NULL);
    const struct multiverse_info_fn *info = multiverse_info_fn((void *)&written);
    CHECK(info && info->outcome == MULTIVERSE_GENERIC && info->error == ENOTSUP);
    info = multiverse_info_fn((void *)&own.far_g);
    CHECK(info && info->outcome == MULTIVERSE_GENERIC && info->error == ENOTSUP && info->active == (void *)&own.far_g);
    info = multiverse_info_fn((void *)&there.far_g);
    CHECK(info && info->outcome != MULTIVERSE_GENERIC && info->active == (void *)&there.far_g);
    CHECK(misses >= 3);
    CHECK(writes(5) == 74 && part() == 74 && copies().s.a == here.a + 2);
    return 0;
}
