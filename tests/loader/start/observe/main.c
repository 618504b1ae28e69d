/* SPDX-License-Identifier: MIT
 *
 * main [wait|run]: commits, and calls a variant: 3 times; for ever after a line is
 * printed; or long enough to be sampled.
 */
#include <multiverse.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

__attribute__((multiverse)) _Bool fast;
static volatile unsigned long sink;
void caller(int n);

__attribute__((multiverse, noinline)) void spin(int n)
{
    if (fast)
        for (int i = 0; i < n; i++)
            sink += 1;
    else
        sink = 1000000;
}

__attribute__((noinline)) void caller(int n)
{
    spin(n); /* the call site */
    sink += 100;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    int (*commit)(void) = NULL;

    *(void **)&commit = dlsym(RTLD_DEFAULT, "multiverse_commit");
    fast = 1;
    if (!commit || commit() != 1)
        return 3;
    if (!strcmp(how, "wait")) {
        puts("ready");
        fflush(stdout);
        while (sink < 1000000)
            caller(2), usleep(1000);
    } else if (!strcmp(how, "run")) {
        for (int i = 0; i < 30000; i++)
            caller(20000);
    } else {
        for (int i = 0; i < 3; i++)
            caller(2);
    }
    printf("sink %lu\n", sink);
    return 0;
}
