// SPDX-License-Identifier: MIT
//
// C++: namespaces, methods, templates, inline functions, scoped enumerations,
// static members, exceptions through variants.  A failure means that a C++
// variation point has no record, or a variant that behaves differently, or one in
// a place where GCC's own checks do not expect it.
// options: -fchecking
#include "../descriptors.h"
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
    MV static int count() { return mode; }
};
int Shape::mode;

template <typename T> MV T twice(T x) { return flag ? x + x : x; }
template <typename T> struct Box {
    T v;
    MV T get() const { return flag ? v : T(); }
};
inline MV int inlined(int x) { return flag ? x - 1 : x + 1; }
inline MV int inline_switch;
template <typename T, typename...> MV int instance;
template <typename T> MV int reads_instance(int x) { return instance<T, Box<T> > == 3 ? x : -x; }
MV int reads_inline_switch() { return inline_switch ? 5 : 6; }

struct Guard { int *p; ~Guard() { *p += 1; } };
[[gnu::noinline]] void may_throw(int x) { if (x > 3) throw std::string("three"); }
MV int throwing(int x, int *n) { Guard g{n}; if (flag) may_throw(x); else may_throw(x - 1); return x; }
MV int catching(int x) { try { if (flag) may_throw(x); return 0; } catch (const std::string &s) { return (int)s.size(); } }
MV int catches_two(int x) { try { may_throw(x + flag); } catch (int) { return 1; } catch (std::string &) { return 2; } return 3; }
MV std::string text(int x) { std::string s = flag ? "yes" : "no"; return s + std::to_string(x); }
MV int jumps(int n)
{
    void *next = n > 2 ? &&large : &&small;
    std::string s = flag ? "yes" : "no";
    if (flag)
        n *= 2;
    goto *next;
large:
    return n + (int)s.size() * 1000;
small:
    return n - (int)s.size();
}
MV auto lambda_user(int x) { auto l = [&] { return flag ? x : -x; }; return l(); }

template <typename F, typename... A> static void same(F f, A... a)
{
    F v = (F)variant_of((void *)f);
    CHECK((void *)v != (void *)f);
    CHECK(v(a...) == f(a...));
}

int main()
{
    descriptors_read();
    for (int i = 0; i < 2; i++) {
        flag = i;
        same(named, 3);
        same(twice<int>, 4);
        same(twice<double>, 1.5);
        same(inlined, 9);
        same(text, 3);
        for (int x = 0; x < 6; x++) {
            same(catching, x);
            same(catches_two, x);
            same(jumps, x);
            auto v = (decltype(&throwing))variant_of((void *)throwing);
            int n1 = 0, n2 = 0, r1 = -1, r2 = -1;
            try { r1 = throwing(x, &n1); } catch (std::string &) {}
            try { r2 = v(x, &n2); } catch (std::string &) {}
            CHECK(r1 == r2 && n1 == n2);
        }
        Shape s(6);
        int (Shape::*side)() const = &Shape::side;
        (void)side;
        auto *f = find_named("Shape::side");
        CHECK(f && f->n_variants == 2);
        CHECK(((int (*)(const Shape *))variant_of(f->body))(&s) == s.side());
        Box<int> b{8};
        auto *g = find_named("Box<T>::get");
        if (!g) g = find_named("Box<int>::get");
        CHECK(g);
        CHECK(((int (*)(const Box<int> *))variant_of(g->body))(&b) == b.get());
    }
    hidden = 4; same(anonymous, 2);
    for (int l : {-3, 0, 5}) { level = (Level)l; same(leveled); }
    Shape s(4);
    for (int m : {2}) {
        Shape::mode = m;
        auto *f = find_named("Shape::area");
        CHECK(f && variant_of(f->body) != f->body);
        CHECK(((int (*)(const Shape *, int))variant_of(f->body))(&s, 9) == s.area(9));
    }
    for (int m : {0, 1}) { Shape::mode = m; same(Shape::count); }
    inline_switch = 1; same(reads_inline_switch);
    unsigned w, fl; const char *n;
    CHECK(find_switch(&flag, &w, &fl, &n) && !strcmp(n, "outer::flag"));
    CHECK(find_switch(&level, &w, &fl, &n) && w == 1 && (fl & 1));
    CHECK(find_switch(&Shape::mode, &w, &fl, &n) && !strcmp(n, "Shape::mode"));
    CHECK(find_switch(&inline_switch, &w, &fl, &n));
    instance<char, Box<char> > = 3;
    CHECK(reads_instance<char>(1) == 1 && reads_instance<long>(1) == -1);
    same(reads_instance<char>, 4);
    CHECK(find_switch(&instance<char, Box<char> >, &w, &fl, &n) && !strcmp(n, "instance<char, Box<char> >"));
    CHECK(find_switch(&instance<long, Box<long> >, &w, &fl, &n) && !strcmp(n, "instance<long int, Box<long int> >"));
    CHECK(find_named("outer::named"));
    return 0;
}
