/* SPDX-License-Identifier: MIT
 *
 * stacks.c: ways of hard.c in which a stack has little room, or is not the thread's own.
 */
#include "hard.h"

#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define STACKS 65536
#define LITTLE 1024 /* bytes left; a signal's frame takes more */

static unsigned char stacks[STACKS];

/* Calls itself until there is little left of the stack, and waits there with nothing that needs one. */
static __attribute__((noinline)) int wait_deep(const volatile unsigned char *lowest)
{
    volatile unsigned char here[128];
    long result;

    here[0] = 0;
    if (here - lowest > LITTLE + 256)
        return wait_deep(lowest) + here[0];
    do {
        struct pollfd input = {STDIN_FILENO, POLLIN, 0};
        register long timeout __asm__("rdx") = 1000;

        __asm__ volatile("syscall" : "=a"(result) : "0"(SYS_poll), "D"(&input), "S"(1), "r"(timeout)
                         : "rcx", "r11", "memory");
    } while (result <= 0);
    return 0;
}

static ucontext_t outside_of_it;
static unsigned char *coroutine_stack;

static void coroutine(void)
{
    wait_deep(coroutine_stack);
}

static void run_coroutine(void)
{
    ucontext_t context;

    getcontext(&context);
    context.uc_stack.ss_sp = coroutine_stack;
    context.uc_stack.ss_size = STACKS / 2;
    context.uc_link = &outside_of_it;
    makecontext(&context, coroutine, 0);
    swapcontext(&outside_of_it, &context);
}

static void handler(int signal)
{
    (void)signal;
    wait_deep(coroutine_stack);
}

static void run_handler(void)
{
    stack_t handlers = {.ss_sp = coroutine_stack, .ss_size = STACKS / 2};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};

    if (sigaltstack(&handlers, NULL) || sigaction(SIGUSR1, &action, NULL) || raise(SIGUSR1))
        exit(2);
}

/* The upper half of the memory is the stack. */
static void wait_above(unsigned char *memory, void (*run)(void))
{
    memset(memory, 0x5a, STACKS / 2);
    coroutine_stack = memory + STACKS / 2;
    puts("ready");
    fflush(stdout);
    run();
    puts(memcmp(memory, memory + 1, STACKS / 2 - 1) != 0 ? "touched" : "whole");
    fflush(stdout);
}

void by_coroutine(void)
{
    wait_above(stacks, run_coroutine);
}

void by_handler(void)
{
    unsigned char memory[STACKS];

    wait_above(memory, run_handler);
}

/* The kernel makes one mapping of two that lie side by side. */
void by_adjacent(void)
{
    FILE *maps = fopen("/proc/thread-self/maps", "r");
    unsigned long start = 0, end = 0, own = (unsigned long)pthread_self();
    char line[4200];
    void *memory;

    while (maps && (own < start || own >= end) && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx", &start, &end) != 2)
            exit(2);
    memory = mmap((void *)(start - STACKS), STACKS, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (memory == (void *)(start - STACKS))
        wait_above(memory, run_coroutine);
    else
        puts("none");
}

static void *waits_deep(void *nothing)
{
    pthread_attr_t own;
    size_t size;
    void *lowest;

    pthread_getattr_np(pthread_self(), &own);
    pthread_attr_getstack(&own, &lowest, &size);
    puts("ready");
    fflush(stdout);
    wait_deep(lowest);
    puts("whole");
    fflush(stdout);
    exit(0);
    return nothing;
}

void by_shallow(void)
{
    static int never;

    start(waits_deep);
    for (;;)
        syscall(SYS_futex, &never, FUTEX_WAIT, 0, NULL, NULL, 0);
}

void by_masked(void)
{
    stack_t handlers = {.ss_sp = stacks, .ss_size = sizeof stacks};
    sigset_t all;

    sigfillset(&all);
    if (sigaltstack(&handlers, NULL) || sigprocmask(SIG_SETMASK, &all, NULL))
        exit(2);
    wait_for_input();
}

static void *forks_one(void *nothing)
{
    if (!fork()) {
        printf("%d\n", getpid());
        wait_for_input();
        exit(0);
    }
    return nothing;
}

/* A child whose first thread is on the stack of the thread that forked it. */
void by_forked(void)
{
    start(forks_one);
    while (wait(NULL) < 0) /* it is not there yet */
        poll(NULL, 0, 1);
}
