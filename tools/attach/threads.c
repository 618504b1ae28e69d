/* SPDX-License-Identifier: MIT
 *
 * attach/threads.c: stops all threads of a process while code is written, and finds out where they
 * are.
 *
 * A thread is in a range if its program counter is inside, or if its stack contains such an
 * address: a return address, or a signal frame's.  Words that only look so count, too.
 *
 * No thread is redirected, so the kernel itself restarts interrupted system calls, also if the tool
 * is killed; except epoll_wait(2) and similar, which then return EINTR.
 */
#include "tools/attach/attach.h"
#include "tools/common/tools.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define TRIES 20
#define TRY_US 50
#define LOOK_NS UINT64_C(10000000)
#define STACK_MAX (64u << 20) /* more of a stack is not looked at: the thread counts as standing there */

static int is_known(const struct attach *a, pid_t thread)
{
    for (size_t i = 0; i < a->n_others; i++)
        if (a->others[i].thread == thread)
            return 1;
    return thread == a->thread;
}

static int reap_thread(const struct attach *a, pid_t thread)
{
    return thread && attach_thread_state(a, thread) == 'Z' && waitpid(thread, NULL, __WALL | WNOHANG) == thread;
}

/* A thread that executes another program waits until all others are gone, and those that are traced until their tracer has
 * reaped them. */
static void reap_ended(struct attach *a, const struct attach_thread *but)
{
    for (struct attach_thread *t = a->others; t < a->others + a->n_others; t++)
        if (t != but && reap_thread(a, t->thread))
            t->thread = 0;
    reap_thread(a, a->thread); /* whoever needs it next finds that it is gone */
    if (reap_thread(a, a->stray))
        a->stray = 0;
}

static struct attach *seizing; /* for the signal's handler */

/* Runs within attach_seize() only, and interrupts nothing but its system calls. */
static void on_child(int signal)
{
    int error = errno;

    (void)signal;
    reap_ended(seizing, NULL);
    errno = error;
}

/* PTRACE_SEIZE waits while the process executes another program.  That may wait until the tool has reaped threads which it
 * traces already.  So SIGCHLD interrupts this wait.  The commands block all signals elsewhere (which.c), so that one which came
 * before is handled here, too. */
int attach_seize(struct attach *a, pid_t thread, unsigned long options)
{
    struct sigaction reap = {.sa_handler = on_child, .sa_flags = SA_RESTART | SA_NOCLDSTOP}, action;
    sigset_t child, mask;
    int err, error;

    seizing = a;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigaction(SIGCHLD, &reap, &action);
    sigprocmask(SIG_UNBLOCK, &child, &mask);
    err = ptrace(PTRACE_SEIZE, thread, NULL, options) ? -1 : 0;
    error = errno;
    sigprocmask(SIG_SETMASK, &mask, NULL);
    sigaction(SIGCHLD, &action, NULL);
    errno = error;
    return err;
}

/* Requests a stop of one thread.  1: it was new; 0; or -1. */
static int seize(struct attach *a, pid_t thread)
{
    if (is_known(a, thread) || attach_thread_state(a, thread) == 'I')
        return 0;
    if (thread == a->stray) {
        a->stray = 0; /* it is traced */
    } else if (attach_seize(a, thread, 0)) {
        int error = errno;
        char state = attach_thread_state(a, thread);

        return state == 'X' || state == 'Z' ? 0 : attach_refused(a, thread, error);
    }
    ptrace(PTRACE_INTERRUPT, thread, NULL, NULL);
    a->others = must_grow(a->others, a->n_others + 1, sizeof *a->others);
    a->others[a->n_others++] = (struct attach_thread){.thread = thread};
    return 1;
}

/* Whether these are all threads of the process.  While the kernel lists threads, one may end, and then it may leave out
 * others.  The ended one may be listed, so only those are counted that are still there: they are all if they are as many as
 * the process said before. */
static int are_all(const struct attach *a, const pid_t *threads, size_t n)
{
    uint64_t left = attach_status_number(a, a->pid, "Threads");
    char path[32];

    for (size_t i = 0; i < n; i++) {
        snprintf(path, sizeof path, "task/%d", threads[i]);
        left -= !faccessat(a->folder, path, F_OK, 0);
    }
    return !left;
}

/* Requests a stop of all further threads.  Returns their number, or -1.  Where threads end meanwhile, the kernel may leave
 * others out of the list: these count as one further thread. */
static int seize_all(struct attach *a, uint64_t until)
{
    int fd = openat(a->folder, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC), n = 0;
    pid_t *threads = NULL;
    size_t listed = 0;
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);

    for (struct dirent *entry; n >= 0 && folder && (entry = readdir(folder));) {
        pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);
        int new = thread > 0 ? seize(a, thread) : 0;

        threads = must_grow(threads, listed + 1, sizeof *threads);
        threads[listed] = thread;
        listed += thread > 0;
        n = new < 0 ? -1 : n + new;
    }
    if (folder)
        closedir(folder);
    if (!folder)
        return attach_fail(a, "process %d has ended", a->pid);
    if (!n && !are_all(a, threads, listed))
        n = clock_ns() < until ? 1 : attach_fail(a, "process %d: /proc does not list all of its threads", a->pid);
    free(threads);
    return n;
}

/* Forgets a thread that has ended. */
static int wait_one(struct attach *a, struct attach_thread *t, uint64_t until)
{
    int status;

    if (!t->thread)
        return 0;
    while ((status = attach_wait(t->thread, clock_ns() + LOOK_NS, NULL)) == -1 && errno == ETIMEDOUT && clock_ns() < until)
        reap_ended(a, t);
    if (status == -1) {
        if (errno == ECHILD) /* it has executed it, and is let go by the first thread's number */
            return attach_fail(a, "process %d executes another program", a->pid);
        if (attach_thread_state(a, t->thread) != 'X' && attach_thread_state(a, t->thread) != 'Z')
            return attach_fail(a, "process %d: thread %d does not stop: it waits for a child of vfork(2), for a disk, or for "
                               "a processor", a->pid, t->thread);
        t->thread = 0;
        return 0;
    }
    t->is_stopped = 1;
    t->signal = attach_signal(status);
    if (ptrace(PTRACE_GETREGS, t->thread, NULL, &t->registers))
        t->thread = 0;
    else if (attach_mend_call(&t->registers))
        ptrace(PTRACE_SETREGS, t->thread, NULL, &t->registers);
    return 0;
}

int attach_stop_others(struct attach *a, unsigned milliseconds)
{
    uint64_t until = clock_ns() + milliseconds * UINT64_C(1000000);
    size_t waited = a->n_others; /* of an earlier call */
    int n;

    do { /* stopped threads make no more threads */
        n = seize_all(a, until);
        while (n >= 0 && waited < a->n_others)
            if (wait_one(a, &a->others[waited++], until))
                n = -1;
    } while (n > 0);
    if (!n)
        return 0;
    attach_let_go(a);
    return -1;
}

void attach_let_go(struct attach *a)
{
    for (size_t i = 0; i < a->n_others; i++)
        if (a->others[i].thread && a->others[i].is_stopped)
            attach_release(a->others[i].thread, a->others[i].signal);
    for (size_t i = 0; i < a->n_others; i++)
        if (a->others[i].thread && !a->others[i].is_stopped)
            attach_release_late(a, a->others[i].thread, ATTACH_LATE_MS);
    free(a->others);
    a->others = NULL;
    a->n_others = 0;
}

/* ---- where they stand ----------------------------------------------------------------------------------- */

static int is_in(const struct attach_range *ranges, size_t n, uint64_t address, int on_stack)
{
    for (size_t i = 0; i < n; i++)
        if ((!on_stack || ranges[i].returns) && address - ranges[i].start < ranges[i].size)
            return 1;
    return 0;
}

/* Each word of a stack, until `is_it` says 1; which is also said where the stack cannot be read. */
static int any_word(const struct attach *a, char **maps, uint64_t sp,
                    int (*is_it)(const void *cookie, uint64_t at, uint64_t word), const void *cookie)
{
    uint64_t at = sp & ~UINT64_C(7), start, end, words[512];

    if (attach_mapping(a, sp, maps, &start, &end) || end - at > STACK_MAX)
        return 1;
    for (size_t size; at < end; at += size) {
        size = end - at < sizeof words ? end - at : sizeof words;
        if (attach_read(a, at, words, size))
            return 1;
        for (size_t i = 0; i < size / sizeof *words; i++)
            if (is_it(cookie, at + i * sizeof *words, words[i]))
                return 1;
    }
    return 0;
}

struct wanted {
    const struct attach_range *ranges;
    size_t n;
};

static int returns_there(const void *wanted, uint64_t at, uint64_t word)
{
    const struct wanted *w = wanted;

    (void)at;
    return is_in(w->ranges, w->n, word, 1);
}

static int stands(const struct attach *a, char **maps, const struct user_regs_struct *r,
                  const struct attach_range *ranges, size_t n)
{
    return is_in(ranges, n, r->rip, 0) || any_word(a, maps, r->rsp, returns_there, &(struct wanted){ranges, n});
}

/* A frame of the kernel's begins with the address of the code that returns from it; in it are the registers. */
static int is_frame(const void *attach, uint64_t at, uint64_t word)
{
    const struct attach *a = attach;
    ucontext_t context;

    return word == a->restorer && !attach_read(a, at + sizeof word, &context, offsetof(ucontext_t, uc_sigmask)) &&
           (context.uc_mcontext.gregs[REG_CSGSFS] & 0xffff) == CODE64;
}

int attach_is_in_handler(const struct attach *a, const struct user_regs_struct *r)
{
    char *maps = NULL;
    int is = any_word(a, &maps, r->rsp, is_frame, a);

    free(maps);
    return is;
}

/* No single steps: should this tool end behind one, the process would, too, by its SIGTRAP. */
void attach_step_out(struct attach *a, const struct attach_range *ranges, size_t n)
{
    for (size_t i = 0; i < a->n_others; i++) {
        struct attach_thread *t = &a->others[i];

        for (int tries = 0; t->thread && !t->signal && tries < TRIES && is_in(ranges, n, t->registers.rip, 1); tries++) {
            if (ptrace(PTRACE_CONT, t->thread, NULL, NULL))
                return;
            t->is_stopped = 0;
            usleep(TRY_US);
            ptrace(PTRACE_INTERRUPT, t->thread, NULL, NULL);
            if (wait_one(a, t, clock_ns() + UINT64_C(1000000000)))
                return; /* it runs: who looks next finds it where it stood */
        }
    }
}

pid_t attach_stands_in(const struct attach *a, const struct attach_range *ranges, size_t n)
{
    char *maps = NULL;
    pid_t found = a->thread && stands(a, &maps, &a->stopped->registers, ranges, n) ? a->thread : 0;

    for (size_t i = 0; !found && i < a->n_others; i++)
        if (a->others[i].thread && stands(a, &maps, &a->others[i].registers, ranges, n))
            found = a->others[i].thread;
    free(maps);
    return found;
}
