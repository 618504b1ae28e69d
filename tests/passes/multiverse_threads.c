/* SPDX-License-Identifier: MIT
 *
 * Callers run through the sites while two threads commit and revert: each call
 * gives what some variant or the generic gives, and nobody crashes.  After the
 * last commit every thread's calls run the new variant.
 */
#include <pthread.h>
#include <time.h>

#include "multiverse_check.h"

static volatile int stop, wrong;

static void *calls(void *unused)
{
    while (!stop)
        for (const struct caller *c = callers; c->name; c++) {
            int is = c->call();

            if (is != 100 && is != 101 && is != 1000 && is != 1001)
                wrong = is ? is : -1;
        }
    return unused;
}

static void *commits(void *unused)
{
    for (unsigned i = 0; !stop; i++) {
        mode = i & 1;
        if (multiverse_commit() < 0 || multiverse_revert() < 0)
            wrong = -2;
    }
    return unused;
}

int main(void)
{
    pthread_t threads[4];
    struct timespec second = {1, 0};

    CHECK(multiverse_init() == 0);
    CHECK(pthread_create(&threads[0], NULL, calls, NULL) == 0);
    CHECK(pthread_create(&threads[1], NULL, calls, NULL) == 0);
    CHECK(pthread_create(&threads[2], NULL, commits, NULL) == 0);
    CHECK(pthread_create(&threads[3], NULL, commits, NULL) == 0);
    nanosleep(&second, NULL);
    stop = 1;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    CHECK(!wrong, "(%d)", wrong);
    mode = 1;
    multiverse_commit();
    check_calls("at last", 1001, 1001);
    return 0;
}
