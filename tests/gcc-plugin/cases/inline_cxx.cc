/* SPDX-License-Identifier: MIT
 *
 * Inline calls in C++: methods, templates and inline functions (each unit has its own copy of such a
 * function), exceptions and destructors around arms and generic call, constructors, lambdas.  A failure
 * means an exception that no handler gets, an object destroyed twice or never, or a wrong arm.
 * not for: -Og
 */
#include "../descriptors.h"
#include <multiverse.h>
#include <cstring>
#include <stdexcept>
#include <string>
#define INLINE __attribute__((multiverse("inline")))
#define NOINLINE __attribute__((noinline, noclone))

__attribute__((multiverse)) bool strict;
__attribute__((multiverse)) int depth;
static int alive, thrown;

INLINE inline int check(int x)
{
    if (strict && x < 0)
        throw std::runtime_error("negative");
    return strict ? x * 2 : x + 1;
}
struct guard {
    int n;
    guard(int n) : n(n) { alive += check(n) ? 1 : 1; }
    ~guard() { alive--; }
};
template <typename T> struct box {
    T value;
    INLINE T get(T other) const { return depth > 2 ? value + other : depth == 1 ? value : other; }
    INLINE std::string text() const { return strict ? "strict" + std::to_string(value) : "a rather long text, in memory of its own"; }
};
NOINLINE int caught(int x)
{
    guard one(5);
    try {
        guard two(x);
        return check(x - 1) + check(x + 1) * 100;
    } catch (const std::runtime_error &e) {
        thrown++;
        return -7 * check(3);
    }
}
NOINLINE int through(int x) { guard one(2); return check(x); }
NOINLINE int outside(int x)
{
    try {
        return through(x) + 1;
    } catch (const std::exception &) {
        return -1;
    }
}
NOINLINE long boxes(int x)
{
    box<int> a{x};
    box<long> b{x * 10l};
    return a.get(x + 1) + b.get(7) * 1000 + (long)a.text().size() * 100000;
}
NOINLINE int lambda(int x)
{
    auto f = [&](int y) { return check(y) + box<int>{y}.get(x); };
    return f(x) + f(x + 1);
}
static NOINLINE void set(int i) { strict = i & 1; depth = i % 4; }
struct answers { long v[8]; };
static answers all()
{
    answers a = {{caught(4), caught(-3), outside(6), outside(-6), boxes(3), lambda(4), alive, thrown}};
    return a;
}

int main()
{
    answers a, b;
    long n = 0;
    descriptors_read();
    const void *function = (const void *)(int (*)(int))check;
#ifdef __OPTIMIZE__
    CHECK(inline_call(function, 4));
#endif
    for (int i = 0; i < 8; i++) {
        set(i);
        thrown = 0;
        a = all();
        CHECK(multiverse_commit() > 0 && !*multiverse_report());
        thrown = 0;
        b = all();
        CHECK(!memcmp(&a, &b, sizeof a) && alive == 0 && a.v[7] == (i & 1) && (a.v[3] == -1) == (i & 1));
        set(i + 1);
        thrown = 0;
        b = all();
        CHECK(!memcmp(&a, &b, sizeof a));
        n += a.v[0];
        CHECK(multiverse_revert() > 0);
    }
    return n == 0;
}
