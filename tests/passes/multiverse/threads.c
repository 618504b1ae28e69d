/* SPDX-License-Identifier: MIT
 *
 * Callers run through the sites while two threads commit and revert: each call
 * gives what some variant or the generic gives, and nobody crashes.  After the
 * last commit every thread's calls run the new variant.
 *
 * It goes on until each thread of either kind has done enough while the others did: how long that
 * takes is no matter.
 */
#include <pthread.h>
#include <stdlib.h>

#include "check.h"

#define CALLS 100000 /* rounds of all callers, of each thread that calls */
#define COMMITS 500  /* of each thread that commits */
#define VARIANTS 4   /* what a call may give, each of which must have been met */

static int wrong;
static unsigned long rounds[2], committed[2], met[VARIANTS];

static int is_over(void)
{
    for (int i = 0; i < 2; i++)
        if (__atomic_load_n(&rounds[i], __ATOMIC_RELAXED) < CALLS ||
            __atomic_load_n(&committed[i], __ATOMIC_RELAXED) < COMMITS)
            return 0;
    return 1;
}

static int variant_of(int is)
{
    static const int given[VARIANTS] = {100, 101, 1000, 1001};
    int i = 0;

    while (i < VARIANTS && given[i] != is)
        i++;
    return i;
}

static void *calls(void *count)
{
    unsigned long *done = count;

    while (!is_over()) {
        for (const struct caller *c = callers; c->name; c++) {
            int is = c->call(), i = variant_of(is);

            if (i == VARIANTS)
                __atomic_store_n(&wrong, is ? is : -1, __ATOMIC_RELAXED);
            else
                __atomic_add_fetch(&met[i], 1, __ATOMIC_RELAXED);
        }
        __atomic_add_fetch(done, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void *commits(void *count)
{
    unsigned long *done = count;

    for (unsigned i = 0; !is_over(); i++) {
        mode = i & 1;
        if (multiverse_commit() < 0 || multiverse_revert() < 0)
            __atomic_store_n(&wrong, -2, __ATOMIC_RELAXED);
        __atomic_add_fetch(done, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

/* When the first thread has ended, and /proc/PID says nothing more of the memory. */
static void *goes_on(void *first)
{
    pthread_join(*(pthread_t *)first, NULL);
    mode = 0;
    CHECK(multiverse_commit() == 1, "(%s%s)", multiverse_error(), multiverse_report());
    mode = 1;
    check_calls("without the first thread", 1000, 1000);
    exit(0);
}

int main(void)
{
    static pthread_t threads[4], self;

    CHECK(multiverse_init() == 0);
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_create(&threads[i], NULL, calls, &rounds[i]) == 0);
        CHECK(pthread_create(&threads[2 + i], NULL, commits, &committed[i]) == 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    CHECK(!wrong, "(%d)", wrong);
    for (int i = 0; i < VARIANTS; i++)
        CHECK(met[i], "nobody ran variant %d", i);
    mode = 1;
    multiverse_commit();
    check_calls("at last", 1001, 1001);
    self = pthread_self();
    CHECK(pthread_create(&threads[0], NULL, goes_on, &self) == 0);
    pthread_exit(NULL);
}
