// SPDX-License-Identifier: MIT
//
// Libraries that come and go fifty times, two by two, with thread-locals, exceptions, pointers to
// functions that are given to the program, and threads that run their code.
//
// A failure means that code of a closed library is entered, or a new one is taken for the old.
//
// build: libone.so -DNAME=1
// build: libtwo.so -DNAME=2 -mtls-dialect=gnu2
// build: program -pthread -rdynamic
// run:
// run: LD_BIND_NOW=1
#include "identity.h"

#include <cstdio>
#include <dlfcn.h>
#include <string>
#include <thread>

#ifdef NAME
static thread_local int calls = 10 * NAME;

extern "C" int work(int n)
{
    RUNS;
    calls += n;
    if (n == 3)
        throw calls;
    return calls;
}

static int own(int n)
{
    RUNS;
    return n * NAME;
}

extern "C" int (*given())(int)
{
    return own;
}
#else
static std::string use(void *handle)
{
    auto work = reinterpret_cast<int (*)(int)>(dlsym(handle, "work"));
    auto given = reinterpret_cast<int (*(*)())(int)>(dlsym(handle, "given"))();
    Dl_info info = {};
    std::string said;

    RUNS;
    for (int n = 0; n < 5; n++) {
        try {
            said += std::to_string(work(n)) + " ";
        } catch (int caught) {
            said += "caught " + std::to_string(caught) + " ";
        }
    }
    std::thread([&] { said += std::to_string(work(7)) + " "; }).join();
    dladdr(reinterpret_cast<void *>(given), &info);
    return said + std::to_string(given(2)) + strrchr(info.dli_fname, '/') + "\n";
}

int main()
{
    static const char *const names[] = {"libone.so", "libtwo.so"};
    std::string first[2];
    int same = 0, gone = 0;

    for (int round = 0; round < 50; round++) {
        int one = round & 1, closed = round % 3 == 0;
        void *handles[2];

        for (int i = 0; i < 2; i++) {
            int k = i ^ one;

            handles[k] = dlopen(names[k], round % 5 ? RTLD_NOW : RTLD_LAZY);
            std::string said = use(handles[k]);

            if (first[k].empty())
                std::printf("%s", (first[k] = said).c_str());
            same += said == first[k];
        }
        dlclose(handles[closed]);
        gone += !dlopen(names[closed], RTLD_NOW | RTLD_NOLOAD);
        dlclose(handles[1 - closed]);
        gone += !dlopen(names[1 - closed], RTLD_NOW | RTLD_NOLOAD);
    }
    std::printf("%d the same, %d gone\n", same, gone);
    return 0;
}
#endif
