/* SPDX-License-Identifier: MIT
 *
 * native.c: a kernel's own text, run in user space.
 *
 *     native SAMPLES TEXT:OFFSET...      nanoseconds of a call, medians of interleaved samples
 *     native -1 TEXT:OFFSET              one call, without a measurement: for a count of instructions
 *     native -N TEXT:OFFSET              N calls
 *
 * TEXT is a file with the text of vmlinux, OFFSET where inode_get_bytes(inode) is in it: it takes inode->i_lock, reads
 * two numbers, and releases it, with no instruction that is privileged.  Code is position-independent as a
 * whole, so it may lie anywhere.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PAIRS 100 /* a sample */
#define MOST 8

typedef long long called(void *inode);
static char inode[4096] __attribute__((aligned(64)));

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
    char *text = mmap(NULL, (size_t)s.st_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    if (text == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    return (called *)(void *)(text + strtoul(colon + 1, NULL, 0));
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

int main(int argc, char **argv)
{
    long samples = argc > 2 ? atol(argv[1]) : 0;
    int n = argc - 2;
    called *f[MOST];
    double *times[MOST];

    if (!samples || n < 1 || n > MOST)
        return 2;
    for (int i = 0; i < n; i++) {
        f[i] = map(argv[2 + i]);
        times[i] = malloc((size_t)labs(samples) * sizeof(double));
    }
    if (samples < 0) {
        while (samples++)
            f[0](inode);
        return 0;
    }
    for (long s = 0; s < samples; s++)
        for (int i = 0; i < n; i++) {
            double began = now();

            for (int k = 0; k < PAIRS; k++)
                f[i](inode);
            times[i][s] = (now() - began) / PAIRS;
        }
    for (int i = 0; i < n; i++) {
        qsort(times[i], (size_t)samples, sizeof(double), by_value);
        printf("%.2f\n", times[i][samples / 2]);
    }
    return 0;
}
