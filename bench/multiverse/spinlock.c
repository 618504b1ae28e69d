/* SPDX-License-Identifier: MIT
 *
 * Figure 1 of the EuroSys 2019 paper: a spin lock for one CPU and for several, written in all
 * ways that the build has (WAYS, a list of X(name)).
 *
 * Cycles of the time stamp counter a round, lock and unlock: the least of many short stretches,
 * of all ways in turn.  And the bytes of each way's loops, as they are in memory when that is
 * measured.
 */
#include "spinlock.h"

#include <multiverse.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <x86intrin.h>

#define ROUNDS 2000
#define STRETCHES 4000
#define SHOWN 160 /* bytes of a loop */

#define X(name) DECLARE_WAY(name);
WAYS
#undef X

unsigned long counted __attribute__((aligned(64)));

static const struct way {
    const char *name;
    void (*loops[2])(long n);
    int (*set)(int smp);
} ways[] = {
#define X(name) {#name, {empty_##name, counts_##name}, set_##name},
    WAYS
#undef X
};
#define N (sizeof ways / sizeof *ways)
static const char *const kinds[] = {"empty", "counts"};

static uint64_t stretch(void (*loop)(long n))
{
    uint64_t before = __rdtsc();
    unsigned cpu;

    loop(ROUNDS);
    return __rdtscp(&cpu) - before;
}

static void show(const struct way *way, int smp)
{
    for (int kind = 0; kind < 2; kind++) {
        const unsigned char *code = (const unsigned char *)(uintptr_t)way->loops[kind];
        int32_t distance;

        memcpy(&distance, code + 1, sizeof distance);
        if (*code == 0xe9) /* to its variant */
            code += 5 + distance;
        printf("code: %s %s %s %p ", way->name, smp ? "SMP" : "UP", kinds[kind],
               (const void *)code);
        for (size_t i = 0; i < SHOWN; i++)
            printf("%02x", code[i]);
        puts("");
    }
}

static void measure(int smp)
{
    uint64_t least[N][2];

    memset(least, 0xff, sizeof least);
    for (int s = 0; s < STRETCHES; s++)
        for (size_t i = 0; i < N; i++)
            for (int kind = 0; kind < 2; kind++) {
                uint64_t took = stretch(ways[(i + (size_t)s) % N].loops[kind]);
                uint64_t *best = &least[(i + (size_t)s) % N][kind];
                *best = took < *best ? took : *best;
            }
    for (size_t i = 0; i < N; i++)
        for (int kind = 0; kind < 2; kind++)
            printf("cycles: %s %s %s %.3f\n", ways[i].name, smp ? "SMP" : "UP", kinds[kind],
                   (double)least[i][kind] / ROUNDS);
}

int main(void)
{
    for (int smp = 0; smp < 2; smp++) {
        for (size_t i = 0; i < N; i++) {
            if (ways[i].set(smp) < 0)
                return fprintf(stderr, "spinlock, %s: %s\n", ways[i].name, multiverse_error()), 1;
            show(&ways[i], smp);
        }
        measure(smp);
    }
    return 0;
}
