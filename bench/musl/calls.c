/* SPDX-License-Identifier: MIT
 *
 * calls: what a call of four functions of musl costs, in a process with one thread.
 *
 *     calls never|joined commit|plain [FUNCTION LOOPS]
 *
 * never: no thread was ever made; joined: one was made, and is gone again.  Of each function a
 * line: its name and nanoseconds a call, the median of short loops, most of which nobody
 * interrupts.  Or so many loops of one function, to count instructions.
 */
#include "../measure.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define CALLS 1000
#define LOOPS 600

#include <multiverse.h>

/* As musl's headers would say. */
#ifdef MULTIVERSED
__attribute__((multiverse)) long random(void);
__attribute__((multiverse)) int fputc(int, FILE *);
#endif

static FILE *file;
static void *blocks[CALLS];
static long sum;

static void call_nothing(void)
{
    for (int i = 0; i < CALLS; i++)
        __asm__ volatile("");
}

static void call_random(void)
{
    for (int i = 0; i < CALLS; i++)
        sum += random();
}

static void call_malloc_0(void)
{
    for (int i = 0; i < CALLS; i++)
        blocks[i] = malloc(0);
}

static void call_malloc_1(void)
{
    for (int i = 0; i < CALLS; i++)
        blocks[i] = malloc(1);
}

static void call_fputc(void)
{
    for (int i = 0; i < CALLS; i++)
        fputc('x', file);
}

static void release(void)
{
    for (int i = 0; i < CALLS; i++) {
        free(blocks[i]);
        blocks[i] = NULL;
    }
}

static double measure(void (*call)(void))
{
    static double samples[LOOPS];

    for (int i = 0; i < LOOPS; i++) {
        double start = now();
        call();
        samples[i] = (now() - start) * 1000 / CALLS;
        release();
    }
    return median(samples, LOOPS);
}

static void *nothing(void *unused)
{
    return unused;
}

static int join_a_thread(void)
{
    pthread_t thread;

    return pthread_create(&thread, NULL, nothing, NULL) || pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*call)(void);
    } calls[] = {{"random", call_random},     {"malloc(0)", call_malloc_0},
                 {"malloc(1)", call_malloc_1}, {"fputc", call_fputc},
                 {"an empty loop", call_nothing}};
    static char buffer[1 << 16];
    int commits = argc > 2 && !strcmp(argv[2], "commit");
    long loops = argc > 4 ? atol(argv[4]) : 0;

    file = fopen("/dev/null", "w");
    if (argc < 3 || !file || setvbuf(file, buffer, _IOFBF, sizeof buffer))
        return 1;
    /* In the stock one, too, so that all have the same heap. */
    if (multiverse_init() || (commits && multiverse_commit() < 4))
        return fprintf(stderr, "calls: %s\n", multiverse_error()), 1;
    if (!strcmp(argv[1], "joined") && join_a_thread())
        return 1;
    if (!commits && multiverse_revert() < 0) /* a join commits by itself */
        return 1;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        for (long n = 0; n < loops && !strcmp(argv[3], calls[i].name); n++) {
            calls[i].call();
            release();
        }
        if (!loops)
            printf("%s: %.3f\n", calls[i].name, measure(calls[i].call));
    }
    return sum == 1;
}
