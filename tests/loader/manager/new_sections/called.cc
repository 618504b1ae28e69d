/* SPDX-License-Identifier: MIT
 *
 * A function that throws, lists the frames above it, or waits for a debugger.
 */
extern "C" { int called(int); extern volatile int go_on; }

#include <cstdio>
#include <dlfcn.h>
#include <execinfo.h>
#include <unistd.h>
volatile int go_on;
int called(int n)
{
    void *at[32];

    if (n < 0)
        throw "it";
    for (int i = 0, k = n == 1 ? backtrace(at, 32) : 0; i < k; i++) {
        Dl_info info;
        int known = dladdr(at[i], &info);
        std::printf("frame %s %s\n", known ? info.dli_fname : "?", known && info.dli_sname ? info.dli_sname : "?");
    }
    while (n == 2 && !go_on)
        usleep(1000);
    return n;
}
