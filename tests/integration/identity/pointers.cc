// SPDX-License-Identifier: MIT
//
// A function has one address: taken in the program, in libraries, in an opened library, in
// static initialisers, by dlsym, in vtables and in tables that are copied to the program; and
// it is the same before and after its code has run. What is called through pointers, jump tables
// and computed gotos does the same.
//
// A failure means that programs which compare function pointers (callbacks that are removed
// again, type checks by address) do the wrong thing.
//
// build: libpointers.so -DNAME=linked
// build: libopened.so -DNAME=opened
// build: program libpointers.so -rdynamic
// build: fixed libpointers.so -rdynamic -no-pie -DFIXED
// build: optimised libpointers.so -rdynamic -O3 -fno-plt
// run:
// run: LD_BIND_NOW=1
// run: program=optimised
// run: program=fixed IDENTITY=
#include "identity.h"

#include <algorithm>
#include <cstdio>
#include <dlfcn.h>
#include <functional>
#include <typeinfo>

typedef int function(int);

struct shape {
    virtual ~shape() = default;
    virtual int sides(int) const = 0;
};

// An inline function that every object has a copy of.
inline __attribute__((noinline)) int shared_inline(int n)
{
    return n + 100;
}

extern "C" int exported(int n);
extern "C" int in_program(int n);

struct report {
    function *exported, *own, *in_program, *inlined, *from_table, *by_name, *libc;
    shape *object;
    const std::type_info *type;
};

#define STRING(x) #x
#define NAMED(x) STRING(x)
#define JOIN(a, b) a##b
#define ASK(x) JOIN(x, _report)

#ifdef NAME
extern "C" int exported(int n)
{
    RUNS;
    return n * 2;
}

static __attribute__((noinline, noclone)) int hidden(int n)
{
    RUNS;
    return n * 3;
}

static function *table[] = {exported, hidden, in_program, shared_inline};

struct square : shape {
    int sides(int n) const override
    {
        RUNS;
        return 4 * n;
    }
};

extern "C" report ASK(NAME)()
{
    static square one;

    RUNS;
    return {exported, hidden, in_program, shared_inline, table[0],
            reinterpret_cast<function *>(dlsym(RTLD_DEFAULT, "exported")),
            static_cast<function *>(abs), &one, &typeid(one)};
}

// A variable that the program copies (R_X86_64_COPY), full of addresses.
#define TABLE(x) JOIN(x, _table)
extern "C" {
extern function *TABLE(NAME)[3];
function *TABLE(NAME)[3] = {exported, hidden, in_program};
}
#else
extern "C" report linked_report();
extern "C" function *linked_table[3];

extern "C" int in_program(int n)
{
#ifndef FIXED
    RUNS;
#endif
    return n * 5;
}

static function *const mine[] = {exported, in_program, shared_inline,
                                 static_cast<function *>(abs)};

static __attribute__((noinline)) int jump_table(int n)
{
    switch (n) {
    case 0: return in_program(1);
    case 1: return exported(2);
    case 2: return shared_inline(3);
    case 3: return -1;
    case 4: return in_program(n) + 7;
    case 5: return 55;
    case 6: return exported(n) - 1;
    default: return 99;
    }
}

static __attribute__((noinline)) int machine(const char *program)
{
    static const void *const labels[] = {&&add, &&twice, &&out, &&call};
    int value = 0;

#define NEXT goto *labels[*program++ - 'a']
    NEXT;
add:
    value++;
    NEXT;
twice:
    value *= 2;
    NEXT;
call:
    value = exported(value);
    NEXT;
out:
    return value;
}

static void compare(const char *what, const report &a, const report &b)
{
    std::printf("%s: %d %d %d %d %d %d %d\n", what, a.exported == b.exported,
                a.in_program == b.in_program, a.inlined == b.inlined, a.from_table == b.exported,
                a.by_name == b.exported, a.libc == b.libc, *a.type == *b.type);
    std::printf("  %d %d %d %d %d\n", a.exported(2), a.own(2), a.in_program(2), a.inlined(2),
                a.object->sides(2));
    function *const *vtable = *reinterpret_cast<function *const *const *>(a.object);
    Dl_info info = {};
    int known = dladdr(reinterpret_cast<void *>(vtable[2]), &info);

    std::printf("  vtable %d %s %d\n", known, info.dli_sname ? info.dli_sname : "-",
                info.dli_saddr == reinterpret_cast<void *>(vtable[2]));
}

static int descending(const void *a, const void *b)
{
    return *static_cast<const int *>(b) - *static_cast<const int *>(a);
}

int main()
{
    report one = linked_report();
    void *h = dlopen("libopened.so", RTLD_NOW);
    auto ask = reinterpret_cast<report (*)()>(dlsym(h, "opened_report"));
    report two = ask(), again = linked_report();
    report own = {exported, nullptr, in_program, shared_inline, mine[0],
                  reinterpret_cast<function *>(dlsym(RTLD_DEFAULT, "exported")), mine[3],
                  one.object, one.type};
    int list[] = {3, 9, 1, 7, 5};

#ifndef FIXED
    RUNS;
#endif
    own.own = in_program;
    compare("linked and program", one, own);
    compare("opened and program", two, own);
    compare("again", again, one);
    std::printf("tables: %d %d %d %d %d\n", linked_table[0] == exported, linked_table[1] == one.own,
                linked_table[2] == in_program, mine[1] == in_program, mine[2] == one.inlined);
    for (function *f : linked_table)
        std::printf("%d ", f(7));
    for (int i = 0; i < 8; i++)
        std::printf("%d ", jump_table(i));
    std::printf("%d %d\n", machine("aabdc"), machine("adbac"));
    qsort(list, 5, sizeof(int), descending);
    std::printf("%d %d %d\n", list[0], list[2], list[4]);
    std::sort(list, list + 5, std::less<int>());
    std::function<int(int)> f = exported;
    std::printf("%d %d %d\n", list[0], f(4), *f.target<function *>() == one.exported);
    int (shape::*member)(int) const = &shape::sides;
    std::printf("%d\n", (one.object->*member)(3));
    return 0;
}
#endif
