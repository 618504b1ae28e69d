/* SPDX-License-Identifier: MIT
 *
 * setjmp and longjmp, sigsetjmp and siglongjmp out of a handler, through libraries and callbacks,
 * again and again to one place; coroutines by makecontext and swapcontext. They store program
 * counters and come back there.
 *
 * A failure means that interpreters and coroutine libraries crash.
 *
 * build: libjumps.so -DLIBRARY
 * build: program libjumps.so
 * build: optimised libjumps.so -O3 -fno-plt
 * run:
 * run: program=optimised LD_BIND_NOW=1
 */
#include "identity.h"

#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>

void jump_from_library(jmp_buf, int);
int jump_in_library(int (*)(int));

#ifdef LIBRARY
void jump_from_library(jmp_buf to, int value)
{
    RUNS;
    longjmp(to, value);
}

static jmp_buf inner;

static int back(int n)
{
    RUNS;
    longjmp(inner, n + 1);
}

int jump_in_library(int (*f)(int))
{
    int n = setjmp(inner);

    RUNS;
    return n < 5 ? back(n + f(n)) : n;
}
#else
static jmp_buf buffer;
static sigjmp_buf signals;
static ucontext_t main_context, contexts[2];
static int order[20], turns;

static int compare(const void *a, const void *b)
{
    RUNS;
    (void)a;
    jump_from_library(buffer, *(const int *)b + 10);
    return 0;
}

static void handler(int signal)
{
    RUNS;
    siglongjmp(signals, signal);
}

static void coroutine(int self, int other)
{
    for (int i = 0; i < 3; i++) {
        RUNS;
        order[turns++] = self * 10 + i;
        swapcontext(&contexts[self], &contexts[other]);
        RUNS;
    }
}

static int zero(int n)
{
    RUNS;
    return n & 0;
}

int main(void)
{
    static char stacks[2][65536];
    int one = 1;
    volatile int count = 0;
    int value;
    sigset_t set;

    setvbuf(stdout, NULL, _IONBF, 0);
    RUNS;
    value = setjmp(buffer);
    RUNS;
    printf("%d\n", value);
    if (count++ < 3)
        jump_from_library(buffer, count);
    value = setjmp(buffer);
    if (!value)
        bsearch(&one, &one, 1, sizeof(one), compare);
    printf("out of a callback %d\n", value);
    printf("in the library %d\n", jump_in_library(zero));
    signal(SIGUSR1, handler);
    for (volatile int i = 0; i < 3; i++) {
        value = sigsetjmp(signals, 1);
        if (!value)
            raise(SIGUSR1);
        sigprocmask(SIG_BLOCK, NULL, &set);
        printf("out of a handler %d, blocked %d\n", value, sigismember(&set, SIGUSR1));
    }
    for (int i = 0; i < 2; i++) {
        getcontext(&contexts[i]);
        contexts[i].uc_stack.ss_sp = stacks[i];
        contexts[i].uc_stack.ss_size = sizeof(stacks[i]);
        contexts[i].uc_link = &main_context;
        makecontext(&contexts[i], (void (*)(void))coroutine, 2, i, 1 - i);
    }
    swapcontext(&main_context, &contexts[0]);
    for (int i = 0; i < turns; i++)
        printf("%d ", order[i]);
    count = 0;
    getcontext(&main_context);
    RUNS;
    printf("again %d\n", count);
    if (count++ < 2)
        setcontext(&main_context);
    return 0;
}
#endif
