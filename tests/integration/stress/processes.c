/* SPDX-License-Identifier: MIT
 *
 * processes N: one thread commits and reverts while others start processes by fork,
 * vfork and posix_spawn, call with all signals blocked, or are interrupted by a
 * timer whose handler calls.  A forked child calls, commits, reverts and calls.
 *
 * A failure means that a child starts in the middle of a commit, cannot commit, or
 * sees its parent's switches; or that somebody ran half of an instruction.
 */
#include <multiverse.h>

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((multiverse("values", 0, 1, 2))) int mode;

__attribute__((multiverse)) int value(void)
{
    if (mode == 0)
        return 10;
    if (mode == 1)
        return 11;
    return mode == 2 ? 12 : 99;
}

__attribute__((multiverse, noinline)) int longer(int x)
{
    if (mode == 0)
        return x * 3 + 1;
    if (mode == 1)
        return x * 3 + 2;
    return mode == 2 ? x * 3 + 3 : 0;
}

static int stop, wrong;
static unsigned long calls, in_handler, children;
extern char **environ;

static void fail(const char *what, long got)
{
    if (__atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED) < 5)
        fprintf(stderr, "%s: %ld\n", what, got);
}

static void call(unsigned long *count)
{
    int a = value(), b = longer(7);

    if (a < 10 || a > 12 || b < 22 || b > 24)
        fail("call", a * 1000 + b);
    __atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
}

static void on_alarm(int signal)
{
    (void)signal;
    call(&in_handler);
}

static int child(void)
{
    call(&calls);
    for (int i = 0; i < 3; i++) {
        mode = i;
        if (multiverse_commit() < 0)
            return 2;
        mode = (i + 1) % 3;
        if (value() != 10 + i || longer(7) != 22 + i)
            return 3;
        if (multiverse_revert() < 0)
            return 4;
        if (value() != 10 + mode)
            return 5;
    }
    return wrong ? 6 : 0;
}

static void reap(pid_t pid, const char *what)
{
    int status = -1;

    if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
        fail(what, status);
    __atomic_add_fetch(&children, 1, __ATOMIC_RELAXED);
}

static void *forks(void *n)
{
    char *const arguments[] = {"true", NULL};

    for (long i = 0; i < (long)n; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            alarm(20);
            _exit(child());
        }
        reap(pid, "fork");
        pid = vfork();
        if (pid == 0) {
            execv("/bin/true", arguments);
            _exit(9);
        }
        reap(pid, "vfork");
        if (posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environ))
            pid = -1;
        reap(pid, "posix_spawn");
    }
    __atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static void *blocked(void *unused)
{
    sigset_t all;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        for (int i = 0; i < 500; i++)
            call(&calls);
        usleep(20);
    }
    return unused;
}

int main(int argc, char **argv)
{
    struct itimerval often = {{0, 700}, {0, 700}}, never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    long n = argc > 1 ? atol(argv[1]) : 10;
    unsigned long commits = 0;
    pthread_t threads[2];

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    pthread_create(&threads[0], NULL, blocked, NULL);
    pthread_create(&threads[1], NULL, forks, (void *)n);
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
        mode = (int)(commits++ % 3);
        if (multiverse_commit() < 0)
            fail(multiverse_error(), -1);
        if (multiverse_revert() < 0)
            fail(multiverse_error(), -1);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("%lu commits, %lu children, %lu calls, %lu in handlers, %d wrong\n", commits, children,
           calls, in_handler, wrong);
    return wrong || !in_handler || children != 3 * (unsigned long)n;
}
