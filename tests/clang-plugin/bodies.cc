// SPDX-License-Identifier: MIT
//
// Bodies of all kinds under clang: namespaces, methods, templates, inline functions, exceptions,
// arguments of all sorts, static variables.  A failure means that a
// variant behaves differently than its generic, or that a variation point has no record.
#include "../gcc-plugin/descriptors.h"
#include <multiverse.h>
#include <csetjmp>
#include <cstdarg>
#include <cstring>
#include <string>

#define MV __attribute__((multiverse))

namespace outer {
MV bool flag;
namespace {
MV int hidden;
}
enum class Level : signed char { low = -3, mid = 0, high = 5 };
MV Level level;
MV int named(int x) { return flag ? x + 1 : x * 2; }
MV int anonymous(int x) { return hidden == 4 ? x : x + 7; }
MV int leveled() { switch (level) { case Level::low: return 1; case Level::high: return 2; default: return 3; } }
}
using namespace outer;

struct Shape {
    int n;
    static MV int mode;
    explicit Shape(int n) : n(n) {}
    virtual ~Shape() {}
    MV int area(int k) const { return mode == 2 ? n * k : n + k; }
    MV virtual int side() const { return flag ? n : -n; }
};
int Shape::mode;

template <typename T> MV T twice(T x) { return flag ? x + x : x; }
template <typename T> struct Box {
    T v;
    MV T get() const { return flag ? v : T(); }
};
inline MV int inlined(int x) { return flag ? x - 1 : x + 1; }
inline MV int inline_switch;
template <typename T> MV int instance;
template <typename T> MV int reads_instance(int x) { return instance<T> == 3 ? x : -x; }
MV int reads_inline_switch() { return inline_switch ? 5 : 6; }
static inline __attribute__((always_inline)) int helper(int x) { return hidden == 9 ? x + 90 : x; }
MV int reads_helper(int x) { return helper(x) + 1; }

struct Guard { int *p; ~Guard() { *p += 1; } };
[[gnu::noinline]] void may_throw(int x) { if (x > 3) throw std::string("three"); }
MV int throwing(int x, int *n) { Guard g{n}; if (flag) may_throw(x); else may_throw(x - 1); return x; }
MV int catching(int x) { try { if (flag) may_throw(x); return 0; } catch (const std::string &s) { return (int)s.size(); } }
MV std::string text(int x) { std::string s = flag ? "yes" : "no"; return s + std::to_string(x); }
MV auto lambda_user(int x) { auto l = [&]() __attribute__((always_inline)) { return flag ? x : -x; }; return l(); }

static std::jmp_buf env;
MV int jumps(int n)
{
    volatile int k = n;
    if (setjmp(env)) return k + (flag ? 10 : 20);
    k = k + 1;
    longjmp(env, 1);
}
MV int variadic(int n, ...)
{
    va_list ap;
    int s = 0;
    va_start(ap, n);
    while (n--) s += va_arg(ap, int) * (flag ? 2 : 1);
    va_end(ap);
    return s;
}
MV int counts() { static int calls; return flag ? ++calls : calls++; }
MV int volatile_read() { return *(volatile bool *)&flag; }
MV int relaxed() { return __atomic_load_n(&flag, __ATOMIC_RELAXED) ? 5 : 6; }
MV int acquire() { return __atomic_load_n(&flag, __ATOMIC_ACQUIRE) ? 5 : 6; }
MV __attribute__((cold)) int cold(int n) { return flag ? n : 2; }
MV __attribute__((aligned(64))) int aligned(int n) { return flag ? n : 4; }
MV double floats(double d, float f) { return flag ? d * f : d / f; }
MV int unique_asm(int n)
{
    int r;
    __asm__ volatile("xor %0, %0\n.Lunique%=: inc %0\n\tcmp %1, %0\n\tjl .Lunique%=" : "=&r"(r) : "r"(n) : "cc");
    return flag ? r : -r;
}
MV int recursion(int n) { return n <= 0 ? flag : recursion(n - 1) + recursion(n - 2); }
MV __attribute__((optnone)) int unoptimised(int x) { int y = flag ? x : 3; return y + 1; }
static int constructed;
MV __attribute__((constructor)) void construct() { constructed += flag ? 100 : 1; }

template <typename F, typename... A> static void same(F f, A... a)
{
    F v = (F)variant_of((void *)f);
    CHECK((void *)v != (void *)f);
    CHECK(v(a...) == f(a...));
}

int main()
{
    descriptors_read();
    CHECK(constructed == 1);
    for (int i = 0; i < 2; i++) {
        flag = i;
        same(named, 3); same(twice<int>, 4); same(twice<double>, 1.5); same(inlined, 9);
        same(text, 3); same(lambda_user, 5); same(jumps, 4); same(variadic, 2, 7, 8);
        same(relaxed); same(cold, 5); same(aligned, 5); same(floats, 1.5, 2.5f); same(unique_asm, 5);
        same(recursion, 7); same(unoptimised, 5);
        CHECK(find_function((void *)acquire)->n_variants == 0);
        CHECK(find_function((void *)volatile_read)->n_variants == 0);
        for (int x = 0; x < 6; x++) {
            same(catching, x);
            auto v = (decltype(&throwing))variant_of((void *)throwing);
            int n1 = 0, n2 = 0, r1 = -1, r2 = -1;
            try { r1 = throwing(x, &n1); } catch (std::string &) {}
            try { r2 = v(x, &n2); } catch (std::string &) {}
            CHECK(r1 == r2 && n1 == n2 && (void *)v != (void *)throwing);
        }
        int before = counts();
        CHECK(((int (*)())variant_of((void *)counts))() == before + 1); /* the same variable */
        Shape s(6);
        auto *f = find_named("Shape::side");
        CHECK(f && f->n_variants == 2);
        CHECK(((int (*)(const Shape *))variant_of(f->body))(&s) == s.side());
        Box<int> b{8};
        auto *g = find_named("Box<int>::get");
        CHECK(g && g->n_variants == 2);
        CHECK(((int (*)(const Box<int> *))variant_of(g->body))(&b) == b.get());
    }
    for (int h : {4, 5, 9}) { hidden = h; same(anonymous, 2); same(reads_helper, 3); }
    for (int l : {-3, 0, 5}) { level = (Level)l; same(leveled); }
    for (int v : {0, 1}) { inline_switch = v; same(reads_inline_switch); }
    for (int v : {2, 3, 4}) { instance<char> = v; same(reads_instance<char>, 6); }
    Shape s(4);
    auto *area = find_named("Shape::area");
    CHECK(area);
    for (int v : {1, 2, 3}) { Shape::mode = v; CHECK(((int (*)(const Shape *, int))variant_of(area->body))(&s, 5) == s.area(5)); }

    flag = true;
    CHECK(multiverse_commit() > 0);
    flag = false;
    CHECK(named(3) == 4 && twice(2) == 4 && inlined(1) == 0 && recursion(3) == 5 && volatile_read() == 0);
    CHECK(text(3) == "yes3");
    CHECK(multiverse_revert() > 0);
    CHECK(named(3) == 6 && twice(2) == 2);
    return 0;
}
