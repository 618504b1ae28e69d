/* SPDX-License-Identifier: MIT
 *
 * A child of fork commits although another thread of its parent was inside dl_iterate_phdr at the fork, whose
 * lock nobody gives back in the child.  A failure means: it waits for ever (its alarm ends it), or it changes
 * nothing.
 */
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

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

static void in_child(void)
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

static void fork_inside(void)
{
    pthread_t thread;
    pid_t child;
    int status;

    CHECK(pthread_create(&thread, NULL, lists, NULL) == 0);
    sem_wait(&inside);
    child = fork();
    if (!child)
        in_child();
    CHECK(child > 0);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "(status %x)", status);
    sem_post(&done);
    pthread_join(thread, NULL);
}

int main(void)
{
    CHECK(multiverse_init() == 0);
    sem_init(&inside, 0, 0);
    sem_init(&done, 0, 0);
    fork_inside();
    fork_inside();
    mode = 1;
    CHECK(multiverse_commit() == 1);
    check_calls("the parent", 1001, 1001);
    return 0;
}
