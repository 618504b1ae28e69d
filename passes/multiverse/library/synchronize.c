/* SPDX-License-Identifier: MIT
 *
 * synchronize.c: until no thread can be inside code that commits replaced.
 *
 * Nobody enters that code any more.  So each thread must be seen outside of it once (stacks.c).
 *
 *   - A thread that waits in the kernel tells where in /proc.  When it has not run since, its stack was looked
 *     at while it stood still.
 *   - A thread that is never met there is stopped for a moment by a child of ours, with ptrace(2): a thread
 *     cannot do that to its own process.  The child shares our memory and ends before we go on.  A thread that waits
 *     for a child of vfork(2), or for a disk, does not stop; when ours ends, nobody traces it any more.
 */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "passes/multiverse/library/library.h"

#define HELPER_STACK 65536
#define STOP_NS 20000000       /* nanoseconds in which a thread that can stop does */
#define RESTART_NO_HANDLER 514 /* the kernel's: again, unless a handler runs */

struct looking {
    struct mv_stacks stacks;
    struct seen {
        pid_t thread; /* 0: was seen outside */
        int runs;     /* as far as /proc says */
    } *threads;
    size_t n, left;
    uint64_t until; /* on now()'s clock */
    int may_stop;
    char helper_stack[HELPER_STACK];
};

static uint64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* ---- threads that wait in the kernel -------------------------------------------------------------------------- */

struct waiting {
    uintptr_t pc, sp;
    unsigned long ran; /* how often it began to */
};

/* 0; 1: it runs; -1: it has ended. */
static int read_thread(pid_t thread, struct waiting *w)
{
    char path[64], *status, *line, *call, *pc, *sp;

    snprintf(path, sizeof path, "/proc/self/task/%d/status", thread);
    status = mv_read_file(path);
    line = status ? strstr(status, "\nState:\t") : NULL;
    if (line && line[8] == 'Z') { /* an ended first thread stays until all have ended; only root may read its `syscall` */
        free(status);
        return -1;
    }
    line = status ? strstr(status, "voluntary_ctxt_switches:") : NULL;
    w->ran = line ? strtoul(line + 24, NULL, 10) : 0;
    line = line ? strstr(line, "nonvoluntary_ctxt_switches:") : NULL;
    w->ran += line ? strtoul(line + 27, NULL, 10) : 0;
    free(status);
    if (!line)
        return -1;
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", thread);
    call = mv_read_file(path); /* "running"; or numbers, the last ones the stack pointer and the program counter */
    pc = call ? strrchr(call, ' ') : NULL;
    sp = pc ? memrchr(call, ' ', (size_t)(pc - call)) : NULL;
    if (sp)
        *w = (struct waiting){.pc = strtoul(pc, NULL, 16), .sp = strtoul(sp, NULL, 16), .ran = w->ran};
    free(call);
    return !sp;
}

static int is_outside(const struct looking *l, struct seen *s)
{
    struct waiting before, after;
    int state = read_thread(s->thread, &before);

    s->runs = state > 0;
    if (state)
        return state < 0;
    if (mv_stacks_stands(&l->stacks, before.pc, before.sp))
        return 0;
    state = read_thread(s->thread, &after);
    s->runs = state > 0 || (!state && (after.pc != before.pc || after.sp != before.sp || after.ran != before.ran));
    return !s->runs;
}

/* ---- threads that run -------------------------------------------------------------------------------------------- */

/* Whether the thread has stopped, in time. */
static int wait_stopped(const struct looking *l, pid_t thread, int *status)
{
    uint64_t until = now() + STOP_NS;
    pid_t got;

    if (until > l->until)
        until = l->until;
    while (!(got = waitpid(thread, status, __WALL | WNOHANG)) && now() < until)
        nanosleep(&(struct timespec){0, 20000}, NULL);
    return got == thread && WIFSTOPPED(*status);
}

static int look_stopped(const struct looking *l, pid_t thread)
{
    struct user_regs_struct r;
    int status, outside = 0, signal;

    if (ptrace(PTRACE_SEIZE, thread, NULL, NULL))
        return 0;
    if (ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) || !wait_stopped(l, thread, &status))
        return 0;
    signal = status >> 16 ? 0 : WSTOPSIG(status);
    if (!ptrace(PTRACE_GETREGS, thread, NULL, &r)) {
        outside = !mv_stacks_stands(&l->stacks, r.rip, r.rsp);
        /* Our stop alone interrupted the call: the kernel repeats it.  An interrupted close(2) has closed its
         * descriptor, so it is not repeated. */
        if (!signal && (long)r.orig_rax >= 0 && r.orig_rax != SYS_close && (long)r.rax == -EINTR) {
            r.rax = (unsigned long)-RESTART_NO_HANDLER;
            ptrace(PTRACE_SETREGS, thread, NULL, &r);
        }
    }
    ptrace(PTRACE_DETACH, thread, NULL, signal);
    return outside;
}

/* In the child, which has all of our memory, while the thread that made it waits. */
static int stop_threads(void *looking)
{
    struct looking *l = looking;

    for (size_t i = 0; i < l->n; i++)
        if (l->threads[i].thread && l->threads[i].runs && look_stopped(l, l->threads[i].thread)) {
            l->threads[i].thread = 0;
            l->left--;
        }
    return 0;
}

static void use_child(struct looking *l)
{
    sigset_t all, before;
    pid_t child;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* a handler would run twice */
    child = clone(stop_threads, l->helper_stack + sizeof l->helper_stack, CLONE_VM | CLONE_VFORK | CLONE_FILES, l);
    if (child > 0)
        while (waitpid(child, NULL, __WALL) < 0 && errno == EINTR)
            ;
    else
        l->may_stop = 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- */

/* The number on a line of /proc/thread-self/status, or -1. */
static long status_number(const char *name)
{
    char *status = mv_read_file("/proc/thread-self/status"), *line = status ? strstr(status, name) : NULL;
    long number = line ? strtol(line + strlen(name), NULL, 10) : -1;

    free(status);
    return number;
}

/* Whether all threads are listed.  While the kernel lists threads, one may end, and then it may leave out others.  The ended
 * one may be listed, so only those are counted that are still there: they are all if they are as many as the process said
 * before. */
static int is_whole(const struct looking *l)
{
    long count = status_number("\nThreads:"), there = 1;
    char path[64];

    for (size_t i = 0; i < l->n; i++) {
        snprintf(path, sizeof path, "/proc/self/task/%d", l->threads[i].thread);
        there += !access(path, F_OK);
    }
    return there == count;
}

/* Lists all other threads.  0; EAGAIN: some may be missing; or another errno. */
static int list_threads(struct looking *l)
{
    DIR *folder = opendir("/proc/self/task");
    pid_t self = (pid_t)syscall(SYS_gettid);

    if (!folder)
        return errno;
    l->n = 0;
    for (struct dirent *e; (e = readdir(folder));) {
        pid_t thread = (pid_t)strtol(e->d_name, NULL, 10);
        struct seen *longer;

        if (thread <= 0 || thread == self)
            continue;
        longer = realloc(l->threads, (l->n + 1) * sizeof *longer);
        if (!longer) {
            closedir(folder);
            return ENOMEM;
        }
        l->threads = longer;
        l->threads[l->n++] = (struct seen){.thread = thread};
    }
    closedir(folder);
    l->left = l->n;
    return is_whole(l) ? 0 : EAGAIN;
}

static void look_round(struct looking *l)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->threads[i].thread && is_outside(l, &l->threads[i])) {
            l->threads[i].thread = 0;
            l->left--;
        }
}

static int look_until(struct looking *l, unsigned milliseconds)
{
    struct timespec nap = {0, 500000};
    uint64_t round = 0;

    l->until = now() + milliseconds * UINT64_C(1000000);
    for (int error = EAGAIN;;) {
        if (mv_stacks_list(&l->stacks))
            return EPERM;
        if (error)
            error = list_threads(l);
        if (error && error != EAGAIN)
            return error;
        look_round(l);
        if (l->left && l->may_stop && round++)
            use_child(l);
        if ((!l->left && !error) || now() >= l->until)
            return l->left ? EAGAIN : error;
        nanosleep(&nap, NULL);
    }
}

/* 0, or errno. */
static int look(struct looking *l, unsigned milliseconds)
{
    if (mv_stacks_open(&l->stacks))
        return EPERM;
    if (mv_stacks_stands(&l->stacks, 0, (uintptr_t)__builtin_frame_address(0)))
        return EDEADLK;
    l->may_stop = !status_number("\nSeccomp:"); /* a filter may end a process that calls ptrace(2) */
    return look_until(l, milliseconds);
}

static int synchronize(unsigned milliseconds)
{
    struct looking *l = calloc(1, sizeof *l);
    uint64_t operation = 0;
    int error;

    if (!l)
        return mv_failed(ENOMEM, "out of memory");
    l->stacks.memory = -1;
    if (mv_each_old(&l->stacks.old, &operation)) {
        error = errno;
    } else {
        error = l->stacks.old.error ? l->stacks.old.error : l->stacks.old.n ? look(l, milliseconds) : 0;
        if (error)
            mv_failed(error, error == EDEADLK   ? "the calling thread is inside code that was replaced"
                             : error == EAGAIN  ? "a thread is, or may be, still inside code that was replaced"
                             : error == ENOTSUP ? "an object has no unwind tables that say where its functions end"
                             : error == EPERM   ? "/proc/self cannot be read"
                                                : strerror(error));
        else
            mv_old_is_left(operation);
    }
    mv_stacks_close(&l->stacks);
    free(l->threads);
    free(l);
    errno = error ? error : errno;
    return error ? -1 : 0;
}

/* A cancelled thread ends where it reads a file or waits; our child would unwind its stack, too. */
int multiverse_synchronize(unsigned milliseconds)
{
    int result, before;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    result = synchronize(milliseconds);
    pthread_setcancelstate(before, &before);
    return result;
}
