/* SPDX-License-Identifier: MIT
 *
 * random_programs.c SEED ROUNDS: gives the switches of a generated program (random_programs.py) random
 * values and calls its functions, before, after and between commits, a line a call.
 *
 * Compiled with -DMULTIVERSE=0 it does the same without a commit, and says what is allowed: one result
 * when all switches have the values of the last commit, and between commits one for each way in which
 * some switches still have their committed value and others the new one; certain constants have the
 * committed one.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random_programs.h"
#if MULTIVERSE
#include <multiverse.h>
#endif

static uint64_t state;
static int64_t committed[MAX_SWITCHES], now[MAX_SWITCHES];

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static void put(unsigned i, int64_t value)
{
    memcpy(switches[i].at, &value, switches[i].width); /* little endian: the low bytes */
}

static void new_values(void)
{
    for (unsigned i = 0; i < n_switches; i++) {
        const struct a_switch *s = &switches[i];
        int64_t value = s->candidates[next() % s->n_candidates];

        if (next() % 4 == 0 && !s->is_bool)
            value = (int64_t)next();
        if (next() % 4)
            put(i, now[i] = value);
    }
}

static uint64_t call(const struct a_function *f, uint64_t argument)
{
    trace = 1;
    uint64_t result = f->call(argument);
    return result * 31 + trace;
}

static void print(const char *phase, const struct a_function *f, uint64_t argument)
{
    printf("%s %s %llx", phase, f->name, (unsigned long long)call(f, argument));
}

#if MULTIVERSE
static int is_in(int64_t value, const struct a_switch *s)
{
    int64_t held = 0;

    memcpy(&held, s->at, s->width);
    return !memcmp(&held, &value, s->width);
}

/* All its switches have values that were written down for them, so it has to be bound. */
static int has_to_bind(const struct a_function *f)
{
    if (!f->binds)
        return 0;
    for (unsigned i = 0; i < f->n_switches; i++) {
        const struct a_switch *s = &switches[f->switches[i]];
        unsigned k = 0;

        while (k < s->n_domain && !is_in(s->domain[k], s))
            k++;
        if (s->n_domain && k == s->n_domain)
            return 0;
    }
    return 1;
}
#endif

/* Every function, when all switches have the values that were committed last, or nothing is. */
static void settled(const char *phase, int is_committed)
{
    for (unsigned i = 0; i < n_functions; i++) {
        print(phase, &functions[i], next() % 100);
#if MULTIVERSE
        if (is_committed && has_to_bind(&functions[i]) &&
            multiverse_is_committed((void *)functions[i].function) != 1)
            printf(" unbound");
#else
        (void)is_committed;
#endif
        putchar('\n');
    }
}

#if !MULTIVERSE
static unsigned certain_of(const struct a_function *f)
{
    unsigned certain = 0;

    for (unsigned k = 0; k < f->n_switches; k++)
        certain |= (unsigned)switches[f->switches[k]].is_certain << k;
    return certain;
}
#endif

/* Functions that call no others, when the switches have newer values than those committed. */
static void unsettled(const char *phase)
{
    for (unsigned i = 0; i < n_functions; i++) {
        const struct a_function *f = &functions[i];
        uint64_t argument = next() % 100;

        if (!f->is_leaf || f->n_switches > 4)
            continue;
#if MULTIVERSE
        print(phase, f, argument);
#else
        printf("%s %s", phase, f->name);
        for (unsigned old = 0; old < 1u << f->n_switches; old++) {
            if (certain_of(f) & ~old)
                continue;
            for (unsigned k = 0; k < f->n_switches; k++)
                if (old >> k & 1)
                    put(f->switches[k], committed[f->switches[k]]);
            printf(" %llx", (unsigned long long)call(f, argument));
            for (unsigned k = 0; k < f->n_switches; k++)
                put(f->switches[k], now[f->switches[k]]);
        }
#endif
        putchar('\n');
    }
}

static void check(int result)
{
    if (result < 0) {
        puts("a commit failed");
        exit(1);
    }
}

static void commit(void)
{
#if MULTIVERSE
    check(multiverse_commit());
#else
    check(0);
#endif
    memcpy(committed, now, sizeof now);
}

int main(int argc, char **argv)
{
    unsigned rounds = argc > 2 ? (unsigned)atoi(argv[2]) : 10;

    state = argc > 1 ? strtoull(argv[1], NULL, 0) * 0x9e3779b97f4a7c15 + 1 : 1;
    for (unsigned i = 0; i < n_switches; i++)
        put(i, now[i] = switches[i].candidates[0]);
#if MULTIVERSE
    for (unsigned i = 0; i < n_switches; i++)
        if (switches[i].is_tracked && multiverse_info_var(switches[i].at))
            check(multiverse_bind(switches[i].at, 1));
#endif
    settled("before", 0);
    for (unsigned round = 0; round < rounds; round++) {
        unsigned one = (unsigned)(next() % n_switches);

        new_values();
        commit();
        settled("after", 1);
        new_values();
        unsettled("between");
#if MULTIVERSE
        if (multiverse_info_var(switches[one].at)) /* clang's plugin ignores members */
            check(multiverse_commit_refs(switches[one].at));
#else
        if (switches[one].is_certain) /* a switch's value of before may be in a variant for others */
            committed[one] = now[one];
#endif
        unsettled("refs");
        commit();
        settled("again", 1);
        if (next() % 4 == 0) {
#if MULTIVERSE
            check(multiverse_revert());
#endif
            new_values();
            settled("reverted", 0);
        }
    }
    return 0;
}
