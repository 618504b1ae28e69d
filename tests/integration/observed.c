/* SPDX-License-Identifier: MIT
 *
 * A program to be watched from outside (identity_debug.py): it spins, or waits or aborts in a
 * handler of a signal that came inside a library, inside a callback of libc's.
 *
 * build: libobserved.so -DLIBRARY -g -O1
 * build: program libobserved.so -g -O1
 * run:
 */
#include "identity/identity.h"

#include <signal.h>

typedef int callback(const void *, const void *);

int in_library(callback *);
unsigned long spin(unsigned long n);

#ifdef LIBRARY
__attribute__((noinline)) unsigned long spin(unsigned long n)
{
    unsigned long sum = 1;

    RUNS;
    for (unsigned long i = 0; i < n; i++)
        sum = sum * 6364136223846793005ul + i;
    return sum;
}

int in_library(callback *f)
{
    int two[2] = {2, 1};

    RUNS;
    qsort(two, 2, sizeof(int), f);
    return two[0];
}
#else
static const char *how;
static volatile int go_on, called;

__attribute__((noinline)) int later(int n);
int later(int n)
{
    RUNS;
    called += n;
    return called;
}

static void handler(int signal)
{
    RUNS;
    (void)signal;
    if (!strcmp(how, "abort"))
        abort();
    if (!strcmp(how, "wait")) {
        puts("ready");
        fflush(stdout);
        for (int i = 0; i < 500 && !go_on; i++)
            usleep(100000);
    }
}

static int compare(const void *a, const void *b)
{
    RUNS;
    (void)a;
    (void)b;
    raise(SIGUSR1);
    return 0;
}

int main(int argc, char **argv)
{
    int found;

    how = argc > 1 ? argv[1] : "";
    signal(SIGUSR1, handler);
    RUNS;
    found = in_library(compare);
    for (int i = 0; i < 3; i++)
        found += later(i);
    if (!strcmp(how, "spin"))
        found += spin(1500000000ul) == 0;
    printf("found %d\n", found);
    return 0;
}
#endif
