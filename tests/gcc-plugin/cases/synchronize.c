/* SPDX-License-Identifier: MIT
 *
 * multiverse_synchronize() returns when no thread is inside code that a commit replaced, wherever the compiler put it,
 * and not before.  A failure means that a program frees what a thread in an old variant still uses, or waits
 * for threads that are elsewhere.
 *
 * One thread goes into visit() and stays there in one of these ways, until it is let go:
 *     READ    in a system call          SPIN     it never leaves the processor
 *     COLD    in a system call, called from a branch that the compiler takes for unlikely, and puts elsewhere
 *     HANDLER in a signal's handler on a stack of its own, which interrupted what visit() called
 * Threads that end meanwhile hide none that stays there.
 * And a thread that cannot be stopped, since it waits for a child of vfork(2), keeps nobody longer than was asked for.
 * options: -pthread
 * not for: -fsanitize=thread
 */
#include <errno.h>
#include <fcntl.h>
#include <multiverse.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what, ...) \
    do { if (!(what)) { printf("%d: %s: ", __LINE__, #what); printf("" __VA_ARGS__); \
         printf(" (%s)\n", multiverse_error()); failures++; } } while (0)
#define LONG 20000 /* milliseconds; no test waits so long */
#define OTHERS 32
#define VFORK 1500 /* that long a child keeps its parent */

enum way { NONE, READ, SPIN, COLD, HANDLER, WAYS };
static const char *const names[] = {"nobody", "read", "spin", "cold", "handler"};
static int failures, in[2];
static volatile int inside, go, handled;
static pthread_t thread;

__attribute__((multiverse)) _Bool mode;

__attribute__((noinline)) static void rest(void)
{
    char byte;

    inside = 1;
    while (read(in[0], &byte, 1) != 1)
        ;
}

__attribute__((noinline, cold)) static void unlikely(int *n)
{
    rest();
    ++*n;
}

__attribute__((noinline)) static void turn(void)
{
    inside = 1;
    while (!go)
        ;
}

__attribute__((multiverse, noinline)) int visit(int way)
{
    int n = mode ? 100 : 200;

    if (mode) {
        if (__builtin_expect(way == COLD, 0)) {
            unlikely(&n);
            n *= 3;
        }
    } else if (__builtin_expect(way == COLD, 0)) {
        unlikely(&n);
        n *= 5;
    }
    if (way == READ) {
        rest();
        n++;
    }
    if (way == HANDLER) {
        turn();
        n++;
    }
    if (way == SPIN) {
        inside = 1;
        while (!go)
            ;
        n++;
    }
    return n;
}

__attribute__((noinline)) static void synchronize_inside(void)
{
    mode = !mode;
    CHECK(multiverse_commit() >= 0);
    CHECK(multiverse_synchronize(LONG) == -1 && errno == EDEADLK);
}

/* The calling thread is inside. */
__attribute__((multiverse, noinline)) int itself(void)
{
    int n = mode ? 1 : 2;

    synchronize_inside();
    return mode ? n : n + 2;
}

static void on_signal(int signal)
{
    char byte;

    (void)signal;
    handled = 1;
    while (read(in[0], &byte, 1) != 1)
        ;
}

static void *work(void *way)
{
    static char stack[65536];
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack}, before;

    sigaltstack(&other, &before);
    visit((int)(long)way);
    sigaltstack(&before, NULL);
    return NULL;
}

static void nap(int milliseconds)
{
    poll(NULL, 0, milliseconds);
}

static void start(enum way way)
{
    inside = go = handled = 0;
    pthread_create(&thread, NULL, work, (void *)(long)way);
    while (!inside)
        nap(1);
    if (way == HANDLER) {
        pthread_kill(thread, SIGUSR1);
        while (!handled)
            nap(1);
    }
}

static void *let_go(void *nothing)
{
    if (nothing)
        nap(30);
    go = 1;
    if (write(in[1], "x", 1) != 1)
        abort();
    return NULL;
}

static void one(enum way way)
{
    pthread_t other;

    start(way);
    mode = !mode;
    CHECK(multiverse_commit() >= 0);
    CHECK(multiverse_synchronize(0) == -1 && errno == EAGAIN, "%s, at once", names[way]);
    CHECK(multiverse_synchronize(20) == -1 && errno == EAGAIN, "%s, a while", names[way]);
    pthread_create(&other, NULL, let_go, &failures);
    CHECK(multiverse_synchronize(LONG) == 0, "%s, left", names[way]);
    CHECK(go, "%s: it was not outside", names[way]); /* whoever is let go leaves at once */
    pthread_join(thread, NULL);
    pthread_join(other, NULL);
    if (way == SPIN) { /* nobody read it */
        char byte;

        CHECK(read(in[0], &byte, 1) == 1);
    }
}

static void *spin(void *stop)
{
    while (!*(volatile int *)stop)
        ;
    return NULL;
}

/* Is cancelled already, which takes effect after the call. */
static void *cancelled(void *done)
{
    pthread_cancel(pthread_self());
    *(int *)done = !multiverse_synchronize(LONG);
    return NULL;
}

/* Threads that are elsewhere, waiting and running, and one in the new variant. */
static void elsewhere(void)
{
    pthread_t others[6];
    volatile int stop = 0;
    int done = 0;

    mode = !mode;
    CHECK(multiverse_commit() >= 0);
    for (int i = 0; i < 6; i++)
        pthread_create(&others[i], NULL, spin, (void *)&stop);
    start(READ);
    CHECK(multiverse_synchronize(LONG) == 0, "threads are elsewhere");
    let_go(NULL);
    pthread_join(thread, NULL);
    mode = !mode;
    CHECK(multiverse_commit() >= 0);
    pthread_create(&thread, NULL, cancelled, &done);
    pthread_join(thread, NULL);
    CHECK(done, "a cancelled thread has ended inside");
    stop = 1;
    for (int i = 0; i < 6; i++)
        pthread_join(others[i], NULL);
}

static volatile int in_vfork, hidden;

/* The library's, too, unless this file was opened by dlopen: /proc does not say where a thread waits, so it takes those
 * that do for running. */
int open(const char *path, int flags, ...) __attribute__((alias("open64")));
int open64(const char *path, int flags, ...)
{
    const char *name = strrchr(path, '/');

    if (in_vfork && name && !strcmp(name, "/syscall")) {
        hidden = 1;
        errno = EACCES;
        return -1;
    }
    return openat(AT_FDCWD, path, flags, 0600);
}

static void *waits_for_child(void *nothing)
{
    pid_t child;

    in_vfork = 1;
    child = vfork();
    if (!child) {
        poll(NULL, 0, VFORK);
        _exit(0);
    }
    in_vfork = 0;
    waitpid(child, NULL, 0);
    return nothing;
}

static long milliseconds(const struct timespec *from, const struct timespec *to)
{
    return (to->tv_sec - from->tv_sec) * 1000 + (to->tv_nsec - from->tv_nsec) / 1000000;
}

static void unstoppable(void)
{
    struct timespec from, to;

    mode = !mode;
    CHECK(multiverse_commit() >= 0);
    pthread_create(&thread, NULL, waits_for_child, NULL);
    while (!in_vfork)
        ;
    nap(100);
    clock_gettime(CLOCK_MONOTONIC, &from);
    CHECK((multiverse_synchronize(100) == -1 && errno == EAGAIN) || !hidden, "a thread in vfork");
    clock_gettime(CLOCK_MONOTONIC, &to);
    CHECK(in_vfork && milliseconds(&from, &to) < VFORK - 500, "it was waited for: %ld ms", milliseconds(&from, &to));
    pthread_join(thread, NULL);
    CHECK(multiverse_synchronize(LONG) == 0, "behind vfork");
}

static void *until_left(void *leave)
{
    while (!*(volatile int *)leave)
        sched_yield();
    return NULL;
}

/* The kernel's list of threads has gaps while threads end. */
static void others_end(void)
{
    pthread_t others[OTHERS];

    for (int round = 0; round < 200 && !failures; round++) {
        volatile int leave = 0;

        for (int i = 0; i < OTHERS; i++)
            pthread_create(&others[i], NULL, until_left, (void *)&leave);
        start(READ);
        mode = !mode;
        CHECK(multiverse_commit() >= 0);
        leave = 1;
        CHECK(multiverse_synchronize(0) == -1 && errno == EAGAIN, "others end, round %d", round);
        let_go(NULL);
        pthread_join(thread, NULL);
        for (int i = 0; i < OTHERS; i++)
            pthread_join(others[i], NULL);
    }
}

/* When the first thread has ended. */
static void *last(void *first)
{
    pthread_join(*(pthread_t *)first, NULL);
    start(READ);
    mode = !mode;
    CHECK(multiverse_commit() > 0 && multiverse_synchronize(0) == -1 && errno == EAGAIN, "the first thread has ended");
    let_go(NULL);
    CHECK(multiverse_synchronize(LONG) == 0, "the first thread has ended");
    exit(failures != 0);
}

int main(void)
{
    static pthread_t self, other;
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR1, &action, NULL);
    if (pipe(in))
        return 2;
    CHECK(multiverse_synchronize(0) == 0, "nothing was committed");
    unstoppable(); /* first: later the stack has words of replaced code */
    for (int round = 0; round < 2; round++) /* the generic is replaced, then variants */
        for (int way = READ; way < WAYS; way++)
            one((enum way)way);
    elsewhere();
    others_end();
    itself();
    CHECK(multiverse_synchronize(LONG) == 0, "behind it");
    CHECK(multiverse_revert() > 0 && multiverse_synchronize(LONG) == 0, "reverted");
    self = pthread_self();
    pthread_create(&other, NULL, last, &self);
    pthread_exit(NULL);
}
