/* SPDX-License-Identifier: MIT
 *
 * A program, a library that it is linked with (LIBRARY), and one that it opens (PLUGIN): one
 * calls the next, and the last waits, or spins, in a function that no table of dynamic
 * symbols names.  names.py looks at it from outside.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Keeps a call from being the last thing of its function. */
#define STAY __asm__ volatile("" ::: "memory")

void in_library(void (*)(void));
void in_plugin(void);

#ifdef PLUGIN
extern volatile int go_on;
extern int spins;

static __attribute__((noinline)) unsigned long local_spin(unsigned long n)
{
    unsigned long sum = 1;

    for (unsigned long i = 0; i < n; i++)
        sum = sum * 6364136223846793005ul + i;
    return sum;
}

static __attribute__((noinline)) void local_wait(void)
{
    void *here = __builtin_extract_return_addr(__builtin_return_address(0));

    printf("ready %p\n", here);
    fflush(stdout);
    for (int i = 0; i < 500 && !go_on; i++)
        usleep(100000);
    STAY;
}

void in_plugin(void)
{
    if (spins)
        printf("%lu\n", local_spin(400000000ul));
    else
        local_wait();
    STAY;
}
#elif defined(LIBRARY)
void in_library(void (*f)(void))
{
    f();
    STAY;
}
#else
volatile int go_on;
int spins;

__attribute__((noinline)) int later(int n);
int later(int n)
{
    STAY;
    return n + 1;
}

static __attribute__((noinline)) void local_main(void (*f)(void))
{
    in_library(f);
    STAY;
}

int main(int argc, char **argv)
{
    void *plugin = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;

    if (!plugin)
        return 2;
    spins = argc > 2;
    local_main((void (*)(void))(unsigned long)dlsym(plugin, "in_plugin"));
    printf("later %d\n", later(1));
    return 0;
}
#endif
