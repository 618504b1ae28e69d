/* SPDX-License-Identifier: MIT
 *
 * The lock excludes threads from each other, refuses its owner, and is inherited
 * when the owner is gone.  A failure means torn tables, or a program that hangs in
 * a signal handler or after fork.
 */
#include "rimf/base/lock.h"

#include "../../check.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4
#define ROUNDS 20000

static const struct rimf_sys *sys = &rimf_sys_kernel;
static struct rimf_lock lock;
static volatile long counter;

static void *count(void *unused)
{
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(rimf_lock_acquire(sys, &lock) == 0);
        long seen = counter;

        if (i % 64 == 0)
            sched_yield();
        counter = seen + 1;
        rimf_lock_release(sys, &lock);
    }
    return unused;
}

static void exclusion(void)
{
    pthread_t ids[THREADS];

    for (int i = 0; i < THREADS; i++)
        pthread_create(&ids[i], NULL, count, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(ids[i], NULL);
    CHECK(counter == THREADS * ROUNDS, "(%ld)", counter);
    CHECK(lock.word == 0);
}

static volatile int handler_result;

static void handler(int number)
{
    (void)number;
    handler_result = rimf_lock_acquire(sys, &lock);
}

static void refuses_owner(void)
{
    signal(SIGUSR1, handler);
    CHECK(rimf_lock_acquire(sys, &lock) == 0);
    raise(SIGUSR1);
    CHECK(handler_result == -EDEADLK);
    rimf_lock_release(sys, &lock);
    raise(SIGUSR1);
    CHECK(handler_result == 0);
    rimf_lock_release(sys, &lock);
}

static void *take_and_end(void *unused)
{
    CHECK(rimf_lock_acquire(sys, &lock) == 0);
    return unused;
}

static void inherited(void)
{
    pthread_t id;
    pid_t child;
    int status;

    /* The child's main thread is not the parent's. */
    CHECK(rimf_lock_acquire(sys, &lock) == 0);
    child = fork();
    if (child == 0) {
        alarm(5);
        _exit(rimf_lock_acquire(sys, &lock) == RIMF_LOCK_INHERITED &&
                      rimf_lock_acquire(sys, &lock) == -EDEADLK
                  ? 0
                  : 1);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0, "(status %x)", status);
    rimf_lock_release(sys, &lock);

    pthread_create(&id, NULL, take_and_end, NULL);
    pthread_join(id, NULL);
    alarm(5);
    CHECK(rimf_lock_acquire(sys, &lock) == RIMF_LOCK_INHERITED);
    alarm(0);
    rimf_lock_release(sys, &lock);
    CHECK(lock.word == 0);
}

int main(void)
{
    exclusion();
    refuses_owner();
    inherited();
    return 0;
}
