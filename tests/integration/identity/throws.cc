// SPDX-License-Identifier: MIT
//
// C++ exceptions through several libraries, through callbacks of libc's (qsort, bsearch), and out
// of threads; caught by type on the other side, rethrown, nested; the order of destructors;
// what must not leave a noexcept function.
//
// A failure means that a C++ program ends with std::terminate, or forgets a destructor.
//
// build: libinner.so -DINNER
// build: libouter.so -DOUTER libinner.so
// build: libopened.so -DOUTER libinner.so
// build: program libouter.so libinner.so -pthread
// build: optimised libouter.so libinner.so -pthread -O3 -fno-plt
// build: plainly libouter.so libinner.so -pthread -O0
// run:
// run: LD_BIND_NOW=1
// run: program=optimised
// run: program=plainly
#include "identity.h"

#include <cstdio>
#include <dlfcn.h>
#include <exception>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

struct base {
    virtual ~base() = default;
    virtual const char *what() const { return "base"; }
};
struct derived : base {
    const char *what() const override { return "derived"; }
};
struct other : std::runtime_error, base {
    using std::runtime_error::runtime_error;
    const char *what() const noexcept override { return "other"; }
};
struct noisy {
    std::string name;
    ~noisy() { std::printf("  ~%s (%d in flight)\n", name.c_str(), std::uncaught_exceptions()); }
};

#if defined INNER
extern "C" void inner(int what, void (*call)(int))
{
    noisy here{"inner"};

    RUNS;
    if (call)
        call(what);
    switch (what) {
    case 0: throw derived();
    case 1: throw other("o");
    case 2: throw 7;
    case 3: throw std::make_unique<int>(8);
    case 4: throw std::string("text");
    default: break;
    }
}
#elif defined OUTER
extern "C" void inner(int what, void (*call)(int));

extern "C" void outer(int what, void (*call)(int))
{
    noisy one{"outer one"}, two{"outer two"};

    RUNS;
    try {
        noisy three{"outer three"};
        inner(what, call);
    } catch (const std::string &s) {
        std::printf("  outer caught %s\n", s.c_str());
        throw;
    } catch (int n) {
        std::printf("  outer caught %d\n", n);
        std::throw_with_nested(other("nested"));
    }
}
#else
extern "C" void inner(int what, void (*call)(int));
extern "C" void outer(int what, void (*call)(int));

static void report(const char *where, int what, void (*f)(int, void (*)(int)), void (*call)(int))
{
    RUNS;
    std::printf("%s %d\n", where, what);
    try {
        noisy here{"report"};
        f(what, call);
        std::puts("  came back");
    } catch (const base &b) {
        std::printf("  base: %s\n", b.what());
        try {
            std::rethrow_if_nested(b);
        } catch (int n) {
            std::printf("  within: %d\n", n);
        }
    } catch (const std::unique_ptr<int> &p) {
        std::printf("  pointer to %d\n", *p);
    } catch (...) {
        std::puts("  something");
        try {
            throw;
        } catch (const std::string &s) {
            std::printf("  the string %s\n", s.c_str());
        } catch (double) {
            std::puts("  a number");
        } catch (...) {
            std::puts("  something else");
        }
    }
}

static int current;

static int compare(const void *, const void *)
{
    noisy here{"compare"};

    RUNS;
    inner(current, nullptr);
    return 0;
}

static void through_libc(int what, void (*)(int))
{
    int two[2] = {2, 1};

    current = what;
    if (what & 1)
        qsort(two, 2, sizeof(int), compare);
    else
        bsearch(two, two, 2, sizeof(int), compare);
}

static void number(int)
{
    RUNS;
    throw 0.5;
}

static void in_async(int what, void (*call)(int))
{
    std::async(std::launch::async, [=] { RUNS; noisy here{"async"}; outer(what, call); }).get();
}

static void never() noexcept
{
    noisy here{"never"};

    RUNS;
    inner(0, nullptr);
}

int main()
{
    std::setvbuf(stdout, nullptr, _IONBF, 0);
    RUNS;
    auto opened = reinterpret_cast<void (*)(int, void (*)(int))>(
        dlsym(dlopen("libopened.so", RTLD_NOW), "outer"));
    for (int what = 0; what < 6; what++) {
        report("inner", what, inner, nullptr);
        report("outer", what, outer, nullptr);
        report("opened", what, opened, nullptr);
        report("libc", what, through_libc, nullptr);
        report("async", what, in_async, nullptr);
        std::thread([=] { report("thread", what, outer, nullptr); }).join();
    }
    report("callback", 9, outer, number);
    std::set_terminate([] {
        try {
            std::rethrow_exception(std::current_exception());
        } catch (const base &b) {
            std::printf("terminate: %s\n", b.what());
        }
        RUNS;
        std::_Exit(3);
    });
    never();
}
#endif
