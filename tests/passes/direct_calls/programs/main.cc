// SPDX-License-Identifier: MIT
//
// main.cc: calls in every way that leads through PLT or GOT, and prints what came of it.
// matrix.py compares that with the same program under the plain ld.so.
//
// main PLUGIN [threads]
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdexcept>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
int base(int), interposed(void), through_library(void), chosen_once(int), version_1(void);
int become_late(int), chosen_late(int);
int version(void), old_version(void);
#ifndef NO_UNIQUE
int unique(void);
#else // mold copies what looks like data
static int unique(void) { return 77; }
#endif
int tail(int), tail_if(int), tail_slot(int), call_bnd(int);
void calls_back(void (*)(void *), void *);
int absent(void) __attribute__((weak));
int chosen(void) { return 1; }
}
__asm__(".symver old_version, version@V1");

static void throws(void *what)
{
    throw std::runtime_error(static_cast<const char *>(what));
}

static void exceptions()
{
    char text[] = "through the library";

    try {
        calls_back(throws, text);
    } catch (const std::exception &e) {
        printf("caught: %s\n", e.what());
    }
}

static void count_frames(void *n)
{
    void *frames[64];

    *static_cast<int *>(n) = backtrace(frames, 64);
}

static void names()
{
    Dl_info info = {};
    int n = 0;

    printf("base is base: %d\n", dlsym(RTLD_DEFAULT, "base") == reinterpret_cast<void *>(base));
    printf("dladdr: %s\n", dladdr(dlsym(RTLD_DEFAULT, "base"), &info) ? info.dli_sname : "none");
    printf("next: %d\n", dlsym(RTLD_NEXT, "base") != nullptr);
    calls_back(count_frames, &n);
    printf("frames: %d\n", n > 3);
}

static void plugin(const char *path, int flags)
{
    void *handle = dlopen(path, flags);
    auto calls = handle ? reinterpret_cast<int (*)(int)>(dlsym(handle, "plugin_calls")) : nullptr;

    printf("plugin: %d\n", calls ? calls(4) : -1);
    if (handle)
        dlclose(handle);
}

static void *opens(void *path)
{
    for (int i = 0; i < 50; i++) {
        void *handle = dlopen(static_cast<const char *>(path), RTLD_NOW);
        auto calls = reinterpret_cast<int (*)(int)>(dlsym(handle, "plugin_calls"));

        if (calls(4) != 501)
            abort();
        if (i % 3)
            dlclose(handle);
    }
    return nullptr;
}

static void threads(char *path)
{
    pthread_t thread[4];
    int sum = 0;

    for (auto &t : thread)
        if (pthread_create(&t, nullptr, opens, path))
            abort();
    for (int i = 0; i < 200000; i++)
        sum += base(i) - tail(i) + tail_if(1) - chosen_once(-8);
    for (auto &t : thread)
        pthread_join(t, nullptr);
    printf("threads: %d\n", sum);
}

static void forks()
{
    int status = -1;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0)
        _exit(base(1) + tail(2));
    waitpid(child, &status, 0);
    printf("child: %d\n", WEXITSTATUS(status));
}

int main(int argc, char **argv)
{
    printf("base %d, tails %d %d %d %d, bnd %d\n", base(1), tail(2), tail_if(0), tail_if(3),
           tail_slot(4), call_bnd(5));
    printf("interposed %d %d\n", interposed(), through_library());
    printf("ifunc %d, versions %d %d, unique %d\n", chosen_once(1), old_version(), version(),
           unique());
    printf("at once %d, ", become_late(1));
    printf("late %d\n", chosen_late(1));
    printf("weak %d\n", absent ? absent() : -1);
    exceptions();
    names();
    for (int i = 0; i < 3; i++) {
        plugin(argv[1], RTLD_NOW);
        plugin(argv[1], RTLD_LAZY | RTLD_DEEPBIND);
    }
    forks();
    if (argc > 2)
        threads(argv[1]);
    return 0;
}
