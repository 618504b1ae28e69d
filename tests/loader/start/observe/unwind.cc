// SPDX-License-Identifier: MIT
//
// unwind LIBRARY throw|inside|cancel: opens a library whose constructor says from where it
// is called, and then throws, throws and catches, or is cancelled.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <unistd.h>

extern "C" void constructed(const char *what);
static const char *how;

struct Cleanup {
    ~Cleanup() { puts("unwound"); }
};

// In place of addresses, which differ: object and function.
static void say_frames()
{
    void *frames[64];
    int n = backtrace(frames, 64);

    for (int i = 0; i < n; i++) {
        Dl_info info = {};
        dladdr(frames[i], &info);
        const char *file = info.dli_fname ? strrchr(info.dli_fname, '/') : nullptr;
        printf("#%d %s %s\n", i, file ? file + 1 : "?", info.dli_sname ? info.dli_sname : "?");
    }
}

extern "C" void constructed(const char *what)
{
    Cleanup cleanup;

    printf("constructor of %s\n", what);
    say_frames();
    fflush(stdout);
    if (!strcmp(how, "throw"))
        throw 42;
    if (!strcmp(how, "inside"))
        throw 'c';
    pthread_cancel(pthread_self());
    pthread_testcancel();
}

static void *open_it(void *path)
{
    Cleanup cleanup;

    try {
        dlopen(static_cast<char *>(path), RTLD_NOW);
        puts("returned");
    } catch (int value) {
        printf("caught %d\n", value);
    }
    return path;
}

int main(int, char **argv)
{
    pthread_t thread;
    void *result = nullptr;

    how = argv[2];
    pthread_create(&thread, nullptr, open_it, argv[1]);
    pthread_join(thread, &result);
    puts(result == PTHREAD_CANCELED ? "cancelled" : "ended");
    fflush(stdout);
    _exit(0); // the host loader's lock was left behind, with every loader
}
