/* SPDX-License-Identifier: MIT
 *
 * random_programs.c SEED ROUNDS [1 when the units are C++]: gives the switches of a generated program
 * (random_programs.py) random values and calls its functions, before, after and between commits, a line a call.
 *
 * Compiled with -DMULTIVERSE=0 it does the same without a commit, and says what is allowed: one result
 * when all switches have the values of the last commit, and between commits one for each way in which
 * some switches still have their committed value and others the new one; certain constants have the
 * committed one.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "random_programs.h"
#if MULTIVERSE
#include <errno.h>
#include <multiverse.h>
#endif

static uint64_t state;
static int64_t committed[MAX_SWITCHES], now[MAX_SWITCHES];
static int is_open; /* the library that is opened at run time */

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

        if (next() % 4 == 0 && s->has_any_value)
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

        if (s->binds && multiverse_is_committed(s->at) != 1 &&
            multiverse_info_fn(s->at)->error != ERANGE) /* no call reaches another object from here */
            printf(" %u", f->switches[i]);
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
        uint64_t argument = next() % 100;

        if (!functions[i].call)
            continue;
        print(phase, &functions[i], argument);
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

        if (!f->call || !f->is_leaf || f->n_switches > 4)
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

/* Opens or closes the library. */
static void open_or_close(const char *program)
{
    static void *library;
    char name[4096];

    snprintf(name, sizeof name, "%s-opened.so", program);
    if (library)
        check(-dlclose(library)), library = NULL;
    else
        library = dlopen(name, RTLD_NOW);
    is_open = library != NULL;
    for (unsigned i = 0; i < n_functions; i++) {
        struct a_function *f = &functions[i];

        if (!f->is_opened)
            continue;
        snprintf(name, sizeof name, "call_%s", f->name);
        f->call = is_open ? (uint64_t (*)(uint64_t))dlsym(library, name) : NULL;
        f->function = is_open ? (uint64_t (*)(uint64_t))dlsym(library, f->name) : NULL;
    }
}

#if MULTIVERSE
static unsigned loads[MAX_SWITCHES];
static int is_cxx;

static void count_loads(const struct multiverse_info_fn *info, void *cookie)
{
    (void)cookie;
    for (unsigned i = 0; i < n_switches; i++)
        loads[i] += info->function == switches[i].at && info->error == ENOTSUP;
}

/* A constant is generic, and said to be so once, when clang's code loads it.  (Of C++ any unit may have the copy.) */
static void check_loads(void)
{
    for (unsigned i = 0; i < n_switches && !is_cxx; i++) {
        if (loads[i] != (switches[i].is_loaded || (is_open && switches[i].is_loaded_by_opened)))
            printf("constant %u: said to be loaded %u times\n", i, loads[i]);
    }
}
#endif

static void commit(void)
{
#if MULTIVERSE
    memset(loads, 0, sizeof loads);
    check(multiverse_commit());
    check_loads();
#endif
    memcpy(committed, now, sizeof now);
}

/* Commits or reverts a part. */
static void commit_some(void)
{
    unsigned how = next() % 4, one = (unsigned)(next() % n_switches), function = (unsigned)(next() % n_functions);

#if MULTIVERSE
    void *at = switches[one].at, *point = (void *)functions[function].function;

    if (how < 2 && multiverse_info_var(at)) /* clang's plugin ignores members */
        check(multiverse_commit_refs(at));
    if (how == 2 && point)
        check(multiverse_commit_fn(point));
    if (how == 3 && point)
        check(multiverse_revert_fn(point));
#else
    (void)function;
    if (how < 2 && switches[one].is_certain) /* a switch's value of before may be in a variant for others */
        committed[one] = now[one];
#endif
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
#if MULTIVERSE
    is_cxx = argc > 3 && argv[3][0] == '1';
    multiverse_on_miss(count_loads, NULL);
#endif
    settled("before", 0);
    for (unsigned round = 0; round < rounds; round++) {
        if (next() % 3 == 0) {
            open_or_close(argv[0]);
            settled("opened", 0);
        }
        new_values();
        commit();
        settled("after", 1);
        new_values();
        unsettled("between");
        commit_some();
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
