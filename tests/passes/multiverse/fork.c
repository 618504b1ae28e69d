/* SPDX-License-Identifier: MIT
 *
 * The child starts with its parent's state and goes its own way; fork while other
 * threads commit leaves it whole, and fork while one lists the objects does not keep it waiting (an alarm
 * ends it then).
 */
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
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

static sem_t inside, done;

static int wait_inside(struct dl_phdr_info *info, size_t size, void *cookie)
{
    (void)info;
    (void)size;
    (void)cookie;
    sem_post(&inside);
    sem_wait(&done);
    return 1;
}

static void *lists(void *unused)
{
    dl_iterate_phdr(wait_inside, NULL);
    return unused;
}

static void commit_in_child(void)
{
    alarm(10);
    mode = 1;
    CHECK(multiverse_commit() == 1);
    check_calls("in the child", 1001, 1001);
    CHECK(multiverse_revert() == 1);
    check_calls("in the child", 101, 101);
    mode = 0;
    CHECK(multiverse_commit_fn(decide) == 1);
    check_calls("again", 1000, 1000);
    _exit(0);
}

/* Another thread is inside dl_iterate_phdr, whose lock nobody gives back in the child. */
static void while_listed(void)
{
    pthread_t thread;
    pid_t child;

    mode = 0;
    sem_init(&inside, 0, 0);
    sem_init(&done, 0, 0);
    CHECK(pthread_create(&thread, NULL, lists, NULL) == 0);
    sem_wait(&inside);
    child = fork();
    if (!child)
        commit_in_child();
    wait_for(child);
    sem_post(&done);
    pthread_join(thread, NULL);
}

int main(void)
{
    pthread_t thread;

    alone();
    while_listed();
    while_listed();
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
