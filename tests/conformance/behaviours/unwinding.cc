// SPDX-License-Identifier: MIT
//
// Exceptions through libraries, linked and opened, caught by type on the other side;
// destructors of threads' objects; static objects of a library that is closed; backtrace.
//
// covers: elf/tst-unwind-main debug/tst-backtrace* stdlib/tst-tls-atexit* nptl/tst-cleanupx*
// build: libthrow.so -DTHROWS
// build: libopened.so -DTHROWS -DOPENED
// build: program libthrow.so -pthread -rdynamic
// run:
// run: LD_BIND_NOW=1
#include <cstdio>
#include <dlfcn.h>
#include <execinfo.h>
#include <stdexcept>
#include <string>
#include <thread>

struct mine : std::runtime_error {
    using std::runtime_error::runtime_error;
};

#ifdef THROWS
struct noisy {
    const char *name;
    ~noisy() { std::printf("~noisy %s\n", name); }
};
static noisy here{"static"};

extern "C" int
#ifdef OPENED
opened
#else
linked
#endif
    (void (*call)(), int what)
{
    static thread_local noisy thread{"thread"};
    noisy stack{"stack"};
    thread.name = "thread used";
    if (call)
        call();
    if (what == 1)
        throw mine("mine");
    if (what == 2)
        throw std::out_of_range("range");
    return 5;
}
#else
extern "C" int linked(void (*)(), int);

static int frames;

static void look()
{
    void *at[50];

    frames = backtrace(at, 50);
}

static void through()
{
    throw 42;
}

static void ask(int (*f)(void (*)(), int))
{
    for (int what = 0; what < 4; what++) {
        try {
            std::printf("%d\n", f(what == 3 ? through : look, what));
        } catch (const mine &e) {
            std::printf("mine %s\n", e.what());
        } catch (const std::exception &e) {
            std::printf("standard %s\n", e.what());
        } catch (int n) {
            std::printf("int %d\n", n);
        }
    }
    std::printf("%s\n", frames >= 4 ? "frames" : "too few frames");
}

int main()
{
    std::setvbuf(stdout, nullptr, _IONBF, 0);
    ask(linked);
    for (int i = 0; i < 2; i++) {
        void *h = dlopen("libopened.so", RTLD_NOW);
        auto f = reinterpret_cast<int (*)(void (*)(), int)>(dlsym(h, "opened"));

        std::thread(ask, f).join();
        dlclose(h);
        std::puts("closed");
    }
    std::thread(ask, linked).join();
    return 0;
}
#endif
