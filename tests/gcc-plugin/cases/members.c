/* SPDX-License-Identifier: MIT
 *
 * Members of global structures as switches and constants: in structures that are members, in
 * several objects of one type, of this unit alone; through pointers they are plain reads.  A failure
 * means a switch at the wrong place, or one that a write to its object does not reach.
 * compilers: gcc g++
 */
#include "../descriptors.h"
#include <multiverse.h>
#include <stdbool.h>
#include <string.h>
#define MV __attribute__((multiverse))
#define NOINLINE __attribute__((noinline, noclone))

enum mode { SLOW, FAST = 5 };
struct inner {
    char pad[3];
    MV signed char level;
    int plain;
};
struct settings {
    int plain;
    MV bool verbose;
    struct inner log;
    MV enum mode mode;
    __attribute__((multiverse("values", 1, 3))) unsigned chosen;
    __attribute__((multiverse("constant"))) unsigned size;
    __attribute__((multiverse("constant"))) long (*op)(long);
    __attribute__((multiverse("tracked"))) int tracked;
    int array[4];
};
struct settings one, two;
static struct settings own = {7, true, {{0}, 2, 0}, FAST, 3, 11, 0, 1, {0}};

MV int f_verbose(int x) { return one.verbose ? x + 1 : x - 1; }
MV int f_two(int x) { return (one.verbose ? x : -x) + (two.verbose ? 100 : 200); }
MV int f_level(void) { return one.log.level > 3 ? 1 : 2; }
MV int f_mode(void) { return two.mode == FAST ? 3 : 4; }
MV unsigned f_chosen(void) { return one.chosen; }
MV int f_own(int x) { return own.verbose ? x + (own.log.level >= 6) : x - 1; }
MV int f_tracked(void) { return own.tracked ? 1 : 2; }
MV int f_pointer(const struct settings *s) { return s->verbose ? 1 : 2; } /* whose? */
MV int f_other(void) { one.plain++; one.log.plain++; own.array[1]++; return one.verbose ? 1 : 2; } /* writes no switch */
NOINLINE unsigned r_size(void) { return own.size; }
NOINLINE unsigned r_two(void) { return one.size * 1000 + two.size; }
NOINLINE long r_op(long x) { return own.op(x) + 1; }

static long twice(long x) { return 2 * x; }
static long minus(long x) { return -x; }
static NOINLINE void set(int i)
{
    struct settings s = {i, (i & 1) != 0, {{0}, (signed char)(i * 2), 0}, i & 1 ? FAST : SLOW, i & 1 ? 3u : 1u,
                         100u + i, i & 1 ? twice : minus, i, {0}};
    one = two = own = s;
    two.verbose = !one.verbose;
}

#define BOUND(fn) CHECK(variant_of((void *)fn) != (void *)fn)
#define UNBOUND(fn) CHECK(variant_of((void *)fn) == (void *)fn)

static void right(int i, int how)
{
    const int odd = how & 1;
    CHECK(f_verbose(5) == (odd ? 6 : 4) && f_two(7) == (odd ? 7 + 200 : -7 + 100));
    CHECK(f_level() == (how * 2 > 3 ? 1 : 2) && f_mode() == (odd ? 3 : 4) && f_chosen() == (odd ? 3u : 1u));
    CHECK(f_own(3) == (odd ? 3 + (how * 2 >= 6) : 2) && f_other() == (odd ? 1 : 2));
    CHECK(f_pointer(&one) == (i & 1 ? 1 : 2)); /* as it is now */
    CHECK(r_op(21) == (odd ? 43 : -20));
}

int main(void)
{
    unsigned width, flags;
    const char *name;

    descriptors_read();
    CHECK(find_switch(&one.verbose, &width, &flags, &name) && width == 1 && !strcmp(name, "one.verbose"));
    CHECK(find_switch(&one.log.level, &width, &flags, &name) && width == 1 && (flags & 1) && !strcmp(name, "one.log.level"));
    CHECK(find_switch(&own.tracked, &width, &flags, &name) && width == 4 && (flags & 2) && !strcmp(name, "own.tracked"));
    CHECK(find_switch(&two.size, &width, &flags, &name) && (flags & 16));
    CHECK(!find_switch(&one.plain, &width, &flags, &name) && !find_switch(&one.log.plain, &width, &flags, &name));
    set(1);
    BOUND(f_verbose); BOUND(f_two); BOUND(f_level); BOUND(f_mode); BOUND(f_chosen); BOUND(f_own); BOUND(f_other);
    UNBOUND(f_pointer);
    CHECK(find_function((void *)f_two)->n_variants == 4);
    for (int i = 0; i < 6; i++) {
        set(i);
        if (!(i & 1))
            right(i, i);
        CHECK(multiverse_commit() > 0);
        set(i + 1);
        right(i + 1, i);
        CHECK(r_size() == 100u + i);
        if (i & 1)
            CHECK(multiverse_revert() > 0 && r_size() == 101u + i && r_two() == (101u + i) * 1001);
    }
    multiverse_revert();
    set(1);
    CHECK(multiverse_commit_refs(&one.verbose) == 3 && multiverse_is_committed((void *)f_mode) == 0);
    set(2);
    CHECK(f_verbose(5) == 6 && f_mode() == 4);
    CHECK(multiverse_info_var(&own.log.level) && !strcmp(multiverse_info_var(&own.log.level)->name, "own.log.level"));
    CHECK(multiverse_commit_refs(&one.plain) == -1);
    return 0;
}
