/* SPDX-License-Identifier: MIT
 *
 * native.c: a kernel's own functions, run in user space.
 *
 *     native SAMPLES ARGUMENTS IMAGE:OFFSET...   nanoseconds of a call, medians of interleaved samples
 *     native -N ARGUMENTS IMAGE:OFFSET           instructions of N calls and of what surrounds them
 *
 * IMAGE is a file with the memory of vmlinux, OFFSET where a function is in it that executes no privileged instruction.
 * All that it reads is in the image or given; a kernel's code is position-independent as a whole.  ARGUMENTS is up to
 * five of these, with commas between them: a number; b, 4 KiB of zeroes; n, a number that no two calls have.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CALLS 100 /* a sample */
#define MOST 8

typedef long called(long, long, long, long, long);
static char buffer[4096] __attribute__((aligned(64)));
static long arguments[5], step[5];

static void parse(char *text)
{
    int n = 0;

    for (char *one = strtok(text, ","); one && n < 5; one = strtok(NULL, ","), n++) {
        step[n] = *one == 'n';
        arguments[n] = *one == 'b' ? (long)buffer : strtol(one, NULL, 0);
    }
}

static called *map(const char *argument)
{
    char *copy = strdup(argument), *colon = strrchr(copy, ':');
    struct stat s;
    int fd;

    if (!colon)
        exit(2);
    *colon = 0;
    fd = open(copy, O_RDONLY);
    if (fd < 0 || fstat(fd, &s)) {
        perror(copy);
        exit(1);
    }
    char *image = mmap(NULL, (size_t)s.st_size, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE, fd, 0);
    if (image == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    return (called *)(void *)(image + strtoul(colon + 1, NULL, 0));
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double d = *(const double *)a - *(const double *)b;

    return d < 0 ? -1 : d > 0;
}

static void call(called *f, long calls)
{
    long a[5], by[5];

    memcpy(a, arguments, sizeof a);
    memcpy(by, step, sizeof by);
    while (calls--) {
        f(a[0], a[1], a[2], a[3], a[4]);
        for (int i = 0; i < 5; i++)
            a[i] += by[i];
    }
}

/* In single steps, since callgrind refuses some of the prefixes; until another signal than theirs. */
static long count(called *f, long calls)
{
    long n = 0;
    int status;
    pid_t child = fork();

    if (!child) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        call(f, calls);
        _exit(0);
    }
    while (child > 0 && waitpid(child, &status, 0) == child && WIFSTOPPED(status) &&
           WSTOPSIG(status) == (n ? SIGTRAP : SIGSTOP)) {
        ptrace(PTRACE_SINGLESTEP, child, NULL, NULL);
        n++;
    }
    if (child < 0 || !WIFEXITED(status) || n <= calls) {
        fprintf(stderr, "the calls could not be counted\n");
        exit(1);
    }
    return n;
}

int main(int argc, char **argv)
{
    long samples = argc > 3 ? atol(argv[1]) : 0;
    int n = argc - 3;
    called *f[MOST];
    double *times[MOST];

    if (!samples || n < 1 || n > MOST)
        return 2;
    parse(argv[2]);
    for (int i = 0; i < n; i++) {
        f[i] = map(argv[3 + i]);
        times[i] = malloc((size_t)labs(samples) * sizeof(double));
    }
    if (samples < 0) {
        printf("%ld\n", count(f[0], -samples));
        return 0;
    }
    for (long s = 0; s < samples; s++)
        for (int i = 0; i < n; i++) {
            double began = now();

            call(f[i], CALLS);
            times[i][s] = (now() - began) / CALLS;
        }
    for (int i = 0; i < n; i++) {
        qsort(times[i], (size_t)samples, sizeof(double), by_value);
        printf("%.2f\n", times[i][samples / 2]);
    }
    return 0;
}
