/* SPDX-License-Identifier: MIT
 *
 * bench/measure.h: the clock and the median of the C benchmarks.
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <stddef.h>
#include <stdlib.h>
#include <time.h>

/* Microseconds since some point in the past. */
static inline double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static inline int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Sorts the values. */
static inline double median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, compare_times);
    return values[n / 2];
}

#endif
