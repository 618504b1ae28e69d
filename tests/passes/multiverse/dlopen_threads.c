/* SPDX-License-Identifier: MIT
 *
 * One thread opens and closes a library with a variation point while another
 * commits and reverts, and looks at the objects at every call.  A crash means that
 * an object was touched after it went.
 * Argument: a library with call sites and a variation point of its own.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

#include "check.h"

static volatile int stop, wrong;
static const char *path;

static void *opens(void *unused)
{
    while (!stop) {
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        const struct caller *c = library ? dlsym(library, "callers") : NULL;

        if (!c) {
            wrong = -1;
            break;
        }
        for (; c->name; c++) {
            int is = c->call();

            if (is != 100 && is != 101 && is != 1000 && is != 1001)
                wrong = is ? is : -2;
        }
        dlclose(library);
    }
    return unused;
}

int main(int argc, char **argv)
{
    struct timespec start, now;
    pthread_t thread;
    int commits = 0;

    CHECK(argc == 2);
    path = argv[1];
    CHECK(multiverse_init() == 0);
    clock_gettime(CLOCK_MONOTONIC, &start);
    CHECK(pthread_create(&thread, NULL, opens, NULL) == 0);
    do {
        mode = commits & 1;
        CHECK(multiverse_commit() >= 0);
        CHECK(multiverse_revert() >= 0);
        commits++;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - start.tv_sec < 2);
    stop = 1;
    pthread_join(thread, NULL);
    CHECK(!wrong, "(%d)", wrong);
    mode = 1;
    CHECK(multiverse_commit() == 1);
    check_calls("afterwards", 1001, 1001);
    printf("%d commits\n", commits);
    return 0;
}
