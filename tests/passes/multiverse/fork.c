/* SPDX-License-Identifier: MIT
 *
 * The child starts with its parent's state and goes its own way; fork while other
 * threads commit leaves it whole.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static volatile int stop;

static void *commits(void *unused)
{
    while (!stop) {
        multiverse_commit_fn(decide);
        multiverse_revert_fn(decide);
    }
    return unused;
}

static void wait_for(pid_t child)
{
    int status;

    CHECK(child > 0);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "(status %x)", status);
}

static void alone(void)
{
    pid_t child;

    mode = 0;
    CHECK(multiverse_commit() == 1);
    child = fork();
    if (!child) {
        alarm(20);
        check_calls("inherited", 1000, 1000);
        mode = 1;
        CHECK(multiverse_commit() == 1);
        check_calls("in the child", 1001, 1001);
        CHECK(multiverse_revert() == 1);
        check_calls("in the child", 101, 101);
        _exit(0);
    }
    wait_for(child);
    check_calls("the parent's is its own", 1000, 1000);
    CHECK(multiverse_revert() == 1);
}

int main(void)
{
    pthread_t thread;

    alone();
    CHECK(pthread_create(&thread, NULL, commits, NULL) == 0);
    for (int i = 0; i < 50; i++) {
        pid_t child = fork();

        if (!child) {
            alarm(20);
            mode = i & 1;
            CHECK(multiverse_commit() >= 0);
            check_calls("forked from a commit", 1000 + mode, 1000 + mode);
            CHECK(multiverse_revert() == 1);
            check_calls("reverted", 100 + mode, 100 + mode);
            _exit(0);
        }
        wait_for(child);
    }
    stop = 1;
    pthread_join(thread, NULL);
    return 0;
}
