/* SPDX-License-Identifier: MIT
 *
 * attach/rest.c: stops one thread where it waits.
 *
 * Suitable system calls are those by which an event loop, a worker or a shell waits.  malloc, the
 * host loader and mvld make none of them; their calls (mmap, openat, a futex that is no condition
 * variable) are not in the list.
 *
 * A system call that is interrupted is started again by the kernel when the registers say so.  epoll_wait(2)
 * and few others say -EINTR, which a program sees as a signal's; it is made "again, unless a handler runs".
 *
 * In a signal's handler nothing is known: it may have interrupted malloc.
 */
#include "tools/attach/attach.h"
#include "tools/common/tools.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ERESTARTNOHAND 514 /* the kernel's: again, unless a handler runs */
#define XSTATE_MAX 16384
#define FOLLOW_MS 20 /* time for which a running thread is followed from call to call */

uint64_t attach_clock(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void nap(unsigned microseconds)
{
    nanosleep(&(struct timespec){0, microseconds * 1000}, NULL);
}

void attach_pause(unsigned tries)
{
    if (tries > 20)
        nap(20);
}

/* Does a read from this descriptor wait for somebody else? */
static int is_stream(const struct attach *a, uint64_t descriptor)
{
    static const char *const streams[] = {"pipe:", "socket:", "/dev/pts/", "/dev/tty"};
    char path[40], name[64];
    ssize_t n;

    snprintf(path, sizeof path, "fd/%u", (unsigned)descriptor);
    n = readlinkat(a->folder, path, name, sizeof name - 1);
    name[n > 0 ? n : 0] = 0;
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        if (!strncmp(name, streams[i], strlen(streams[i])))
            return 1;
    return 0;
}

/* Whether this is a waiting call, while the thread is in it (`waits`), or as it returns. */
static int is_rest(const struct attach *a, uint64_t number, const uint64_t *arguments, int waits)
{
    switch (number) {
    case SYS_poll: case SYS_ppoll: case SYS_select: case SYS_pselect6:
    case SYS_epoll_wait: case SYS_epoll_pwait: case 441: /* epoll_pwait2 */
    case SYS_nanosleep: case SYS_clock_nanosleep: case SYS_accept: case SYS_accept4:
        return 1;
    case SYS_wait4: case SYS_waitid: case SYS_pause: case SYS_rt_sigtimedwait:
    case SYS_recvfrom: case SYS_recvmsg: case SYS_io_getevents:
        return waits;
    case SYS_read:
        return waits && is_stream(a, arguments[0]);
    case SYS_futex: /* glibc's condition variables, semaphores and pthread_join; its locks take FUTEX_WAIT */
        return waits && (arguments[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
    default:
        return 0;
    }
}

char *attach_thread_file(const struct attach *a, pid_t thread, const char *what)
{
    char path[48], *text;

    snprintf(path, sizeof path, "task/%d/%s", thread, what);
    text = attach_file(a, path, NULL);
    return text ? text : must_print("%s", "");
}

static int waits_in_a_call(const struct attach *a, pid_t thread)
{
    char *text = attach_thread_file(a, thread, "syscall");
    uint64_t number, arguments[3];
    int n = sscanf(text, "%lu %lx %lx %lx", &number, &arguments[0], &arguments[1], &arguments[2]);

    free(text);
    return n == 4 && is_rest(a, number, arguments, 1);
}

/* ---- stops */

int attach_wait(pid_t thread, uint64_t until)
{
    int status;

    for (unsigned tries = 0;; tries++) {
        pid_t got = waitpid(thread, &status, __WALL | WNOHANG);

        if (got == thread)
            return WIFSTOPPED(status) ? status : -1;
        if (got < 0 || attach_clock() > until)
            return -1;
        attach_pause(tries);
    }
}

/* Whether the stop is for a signal, or of the whole process, and not the requested one.  (A
 * detached thread is stopped with the others.) */
static int is_foreign(int status)
{
    return status >> 16 ? WSTOPSIG(status) != SIGTRAP : WSTOPSIG(status) != (SIGTRAP | 0x80);
}

int attach_signal(int status)
{
    return status >> 16 ? 0 : WSTOPSIG(status);
}

/* The status of the requested stop, or -1.  After other stops the thread continues with this
 * request. */
static int wait_for_stop(struct attach *a, int request, uint64_t until)
{
    int status = attach_wait(a->thread, until);

    while (status != -1 && is_foreign(status)) {
        if (ptrace(request, a->thread, NULL, attach_signal(status)))
            return -1;
        status = attach_wait(a->thread, until);
    }
    return status;
}

static int resume_until(struct attach *a, int request, uint64_t until)
{
    return ptrace(request, a->thread, NULL, NULL) ? -1 : wait_for_stop(a, request, until);
}

int attach_resume(struct attach *a, int request, unsigned milliseconds)
{
    return resume_until(a, request, attach_clock() + milliseconds * UINT64_C(1000000));
}

int attach_interrupt(struct attach *a)
{
    uint64_t until = attach_clock() + UINT64_C(1000000000);

    if (ptrace(PTRACE_INTERRUPT, a->thread, NULL, NULL))
        return -1;
    return wait_for_stop(a, PTRACE_CONT, until) == -1 ? -1 : 0;
}

/* ---- what the thread has */

/* Whether a signal would be delivered if the thread continued. */
static int has_signal(const struct attach *a, pid_t thread)
{
    char *text = attach_thread_file(a, thread, "status"), *line = strstr(text, "SigPnd:");
    uint64_t own = 0, shared = 0, blocked = 0;
    int n = line ? sscanf(line, "SigPnd: %lx ShdPnd: %lx SigBlk: %lx", &own, &shared, &blocked) : 0;

    free(text);
    return n != 3 || ((own | shared) & ~blocked);
}

int attach_mend_call(const struct attach *a, pid_t thread, struct user_regs_struct *r)
{
    if ((int64_t)r->orig_rax < 0 || (int64_t)r->rax != -EINTR || has_signal(a, thread))
        return 0;
    if (r->orig_rax == SYS_close) /* the descriptor is closed, and may be another thread's by now */
        return 0;
    r->rax = (uint64_t)-ERESTARTNOHAND;
    return 1;
}

/* Reads the thread's state; 0 if it is at a suitable place. */
static int look(struct attach *a, int waits)
{
    struct attach_stopped *s = a->stopped;
    struct iovec area = {s->xstate, XSTATE_MAX};
    uint64_t arguments[2];

    if (ptrace(PTRACE_GETREGS, a->thread, NULL, &s->registers))
        return -1;
    arguments[0] = s->registers.rdi;
    arguments[1] = s->registers.rsi;
    if ((int64_t)s->registers.orig_rax < 0 || !is_rest(a, s->registers.orig_rax, arguments, waits) ||
        attach_is_in_handler(a, &s->registers) || ptrace(PTRACE_GETREGSET, a->thread, (void *)NT_X86_XSTATE, &area) ||
        ptrace(PTRACE_GETSIGMASK, a->thread, (void *)sizeof s->mask, &s->mask))
        return -1;
    s->xstate_size = area.iov_len;
    if (waits)
        attach_mend_call(a, a->thread, &s->registers);
    return s->xstate_size < XSTATE_MAX ? 0 : -1;
}

/* Follows the thread from call to call, to the end of a waiting one, or into a long one. */
static int follow(struct attach *a)
{
    uint64_t until = attach_clock() + FOLLOW_MS * UINT64_C(1000000);
    int leaves = 0;

    for (;;) {
        int status = resume_until(a, PTRACE_SYSCALL, until);

        if (status == -1)
            return attach_interrupt(a) ? -1 : look(a, 1);
        if (leaves && !look(a, 0))
            return 0;
        leaves = !leaves;
    }
}

/* A thread that ends while it is traced is there until its tracer has heard of it, and who executes another program
 * waits for that. */
int attach_release(pid_t thread, int signal)
{
    uint64_t until = attach_clock() + UINT64_C(100000000);

    while (ptrace(PTRACE_DETACH, thread, NULL, signal)) {
        int status = attach_wait(thread, until);

        if (status == -1)
            return -1;
        signal = attach_signal(status);
    }
    return 0;
}

/* One that could not be let go, as it did not stop: in the middle of execve(2), for instance. */
static void release_stray(struct attach *a)
{
    int status = a->stray ? attach_wait(a->stray, 0) : -1;

    if (status != -1 && !attach_release(a->stray, attach_signal(status)))
        a->stray = 0;
}

/* The thread stands still at a place of rest: 0; or goes on: -1. */
static int stop_thread(struct attach *a, pid_t thread)
{
    if (ptrace(PTRACE_SEIZE, thread, NULL, PTRACE_O_TRACESYSGOOD)) {
        attach_fail(a, errno == EPERM ? "process %d: ptrace(2) is not allowed (kernel.yama.ptrace_scope, or a debugger): %s"
                                      : "process %d: ptrace(2): %s", a->pid, strerror(errno));
        return -1;
    }
    a->thread = thread;
    a->stopped->since = attach_clock();
    if (!attach_interrupt(a) && (!look(a, 1) || !follow(a)))
        return 0;
    a->stray = attach_release(thread, 0) ? thread : 0;
    a->thread = 0;
    return -1;
}

char attach_thread_state(const struct attach *a, pid_t thread)
{
    char *text = attach_thread_file(a, thread, "stat"), *end = strrchr(text, ')');
    char state = end && end[1] ? end[2] : 'X';

    free(text);
    return state;
}

/* A thread may have a filter of system calls that the process has not. */
static int is_filtered(const struct attach *a, pid_t thread)
{
    char *text = attach_thread_file(a, thread, "status"), *line = strstr(text, "\nSeccomp:");
    int filtered = line && strtoul(line + 9, NULL, 10) != 0;

    free(text);
    return filtered;
}

/* Tries each thread once, waiting ones first. */
static int try_threads(struct attach *a, int running)
{
    int fd = openat(a->folder, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC), done = 0;
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);

    for (struct dirent *entry; !done && folder && (entry = readdir(folder));) {
        pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);
        char state = thread > 0 ? attach_thread_state(a, thread) : 'X';

        if (state == 'T')
            attach_fail(a, "process %d is stopped", a->pid);
        else if ((state == 'R' || state == 'S') && (running || waits_in_a_call(a, thread)) &&
                 !is_filtered(a, thread))
            done = !stop_thread(a, thread);
    }
    if (folder)
        closedir(folder);
    return done ? 0 : -1;
}

int attach_rest(struct attach *a, unsigned milliseconds)
{
    uint64_t until = attach_clock() + milliseconds * UINT64_C(1000000);

    a->stopped = must_alloc(1, sizeof *a->stopped);
    a->stopped->xstate = must_alloc(1, XSTATE_MAX);
    a->why[0] = 0;
    do {
        release_stray(a);
        if (!try_threads(a, 0) || !try_threads(a, 1)) {
            a->why[0] = 0;
            return 0;
        }
        if (a->why[0])
            return -1;
        nap(200);
    } while (attach_clock() < until && !attach_has_ended(a));
    return attach_fail(a, "process %d: no thread of it waited for anything within %u ms", a->pid, milliseconds);
}
