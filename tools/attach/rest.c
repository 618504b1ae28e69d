/* SPDX-License-Identifier: MIT
 *
 * attach/rest.c: stops one thread where it waits.
 *
 * A system call that is interrupted is started again by the kernel when the registers say so.  epoll_wait(2)
 * and few others say -EINTR, which a program sees as a signal's; it is made "again, unless a handler runs".  A signal
 * that the program ignores interrupts a traced thread, too.
 *
 * In a signal's handler nothing is known: it may have interrupted malloc, and its stack may be part of another one.
 */
#include "tools/attach/attach.h"
#include "tools/common/tools.h"

#include <elf.h>
#include <errno.h>
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
#define PATIENCE 8   /* rounds in which only threads that wait are tried */
#define FOLLOW_MS 20 /* time for which a running thread is followed from call to call */
#define CLONE_TICKS 2 /* of its processor time, for a clone(2) that is under way */
#define LOOK_MS 100 /* between looks at what it waits for */
#define CHILD_MS 1000 /* for which a child's end is waited for */

static void nap(unsigned microseconds)
{
    nanosleep(&(struct timespec){0, microseconds * 1000}, NULL);
}

void attach_pause(unsigned tries)
{
    if (tries > 20)
        nap(20);
}

char *attach_thread_file(const struct attach *a, pid_t thread, const char *what)
{
    char path[48], *text;

    snprintf(path, sizeof path, "task/%d/%s", thread, what);
    text = attach_file(a, path, NULL);
    return text ? text : must_print("%s", "");
}

/* ---- stops */

int attach_wait(pid_t thread, uint64_t until, uint64_t *ran)
{
    int status;

    for (unsigned tries = 0;; tries++) {
        uint64_t now = clock_ns();
        pid_t got = waitpid(thread, &status, __WALL | WNOHANG);

        if (got == thread && WIFSTOPPED(status))
            return status;
        if (got == thread)
            errno = 0;
        if (got)
            return -1;
        if (now > until) {
            errno = ETIMEDOUT;
            return -1;
        }
        if (ran)
            *ran = now;
        attach_pause(tries);
    }
}

/* Whether this is not the requested stop: PTRACE_SYSCALL requests one at a system call, PTRACE_INTERRUPT any other.  If
 * somebody stops the whole process meanwhile, the thread goes on for us, and is stopped with the others when it is let go. */
static int is_foreign(int status, int request)
{
    if (status >> 16)
        return status >> 16 == PTRACE_EVENT_STOP && request == PTRACE_SYSCALL;
    return request != PTRACE_SYSCALL || WSTOPSIG(status) != (SIGTRAP | 0x80);
}

int attach_signal(int status)
{
    return status >> 16 ? 0 : WSTOPSIG(status);
}

int attach_mend_call(struct user_regs_struct *r)
{
    if ((int64_t)r->orig_rax < 0 || (int64_t)r->rax != -EINTR)
        return 0;
    if (r->orig_rax == SYS_close) /* the descriptor is closed, and may be another thread's by now */
        return 0;
    r->rax = (uint64_t)-ERESTARTNOHAND;
    return 1;
}

/* For a thread that goes on from a stop.  At the end of a system call it must be one that only a signal interrupts: where
 * none is pending, the kernel makes no call again.  0; or -1: it has not stopped. */
static int mend(pid_t thread)
{
    struct user_regs_struct r;

    if (ptrace(PTRACE_GETREGS, thread, NULL, &r))
        return -1;
    if (attach_mend_call(&r))
        ptrace(PTRACE_SETREGS, thread, NULL, &r);
    return 0;
}

/* Whether it stopped since it has made a child, which stands still, too. */
static int has_forked(struct attach *a, int status)
{
    int has = status >> 16 == PTRACE_EVENT_FORK || status >> 16 == PTRACE_EVENT_VFORK;

    if (has)
        ptrace(PTRACE_GETEVENTMSG, a->thread, NULL, &a->child);
    return has;
}

/* The status of the requested stop, or -1; also when the thread has made a child.  After other stops the thread
 * continues with this request. */
static int wait_for_stop(struct attach *a, int request, uint64_t until, uint64_t *ran)
{
    int status = attach_wait(a->thread, until, ran);

    while (status != -1 && is_foreign(status, request)) {
        mend(a->thread);
        if (ptrace(request, a->thread, NULL, attach_signal(status)))
            return -1;
        status = attach_wait(a->thread, until, ran);
    }
    return has_forked(a, status) ? -1 : status;
}

static int resume_until(struct attach *a, int request, uint64_t until, uint64_t *ran)
{
    return ptrace(request, a->thread, NULL, NULL) ? -1 : wait_for_stop(a, request, until, ran);
}

int attach_resume(struct attach *a, int request, unsigned milliseconds)
{
    return resume_until(a, request, clock_ns() + milliseconds * UINT64_C(1000000), NULL);
}

static int interrupt(struct attach *a, uint64_t *ran)
{
    if (ptrace(PTRACE_INTERRUPT, a->thread, NULL, NULL))
        return -1;
    return wait_for_stop(a, PTRACE_CONT, clock_ns() + UINT64_C(1000000000), ran) == -1 ? -1 : 0;
}

int attach_interrupt(struct attach *a)
{
    return interrupt(a, NULL);
}

/* ---- what the thread has */

/* While mvld changes libc's pages in a process that starts, they cannot be executed, and the thread is not led there. */
static int is_at(const struct attach *a, enum attach_place place, const struct user_regs_struct *r, int waits)
{
    uint64_t arguments[2] = {r->rdi, r->rsi};

    if ((int64_t)r->orig_rax < 0 || a->stopped->number == SYS_restart_syscall || !attach_is_on_its_stack(a, r))
        return 0;
    return (place == ATTACH_IN_CALL || attach_is_rest(a, a->stopped->number, arguments, waits)) &&
           !attach_is_in_handler(a, r) && attach_is_code(a, a->syscall_ret) && attach_is_code(a, a->restorer);
}

/* The system call that the thread is in.  That of a restarted one was read before the stop, and holds if the thread has
 * not moved since. */
static uint64_t call_number(const struct attach_stopped *s)
{
    const struct user_regs_struct *r = &s->registers;

    return r->orig_rax == SYS_restart_syscall && r->rip == s->before.pc && r->rsp == s->before.sp ? s->before.number
                                                                                                 : r->orig_rax;
}

/* Reads the thread's state; 0 if it is at a suitable place. */
static int look(struct attach *a, enum attach_place place, int waits)
{
    struct attach_stopped *s = a->stopped;
    struct iovec area = {s->xstate, XSTATE_MAX};

    if (ptrace(PTRACE_GETREGS, a->thread, NULL, &s->registers) ||
        ptrace(PTRACE_GETREGSET, a->thread, (void *)NT_X86_XSTATE, &area) ||
        ptrace(PTRACE_GETSIGMASK, a->thread, (void *)sizeof s->mask, &s->mask) || area.iov_len >= XSTATE_MAX)
        return -1;
    s->xstate_size = area.iov_len;
    attach_undo_restart(a, &s->registers);
    s->number = call_number(s);
    if (!is_at(a, place, &s->registers, waits) || (!waits && (int64_t)s->registers.rax == -EINTR))
        return -1;
    if (waits)
        attach_mend_call(&s->registers);
    return 0;
}

/* Follows the thread from call to call, to the end of a suitable one, or into a long one. */
static int follow(struct attach *a, enum attach_place place)
{
    uint64_t until = clock_ns() + FOLLOW_MS * UINT64_C(1000000);
    int leaves = 0;

    for (;;) {
        int status;

        a->stopped->since = clock_ns();
        status = resume_until(a, PTRACE_SYSCALL, until, &a->stopped->since);
        if (status == -1)
            return a->child || interrupt(a, &a->stopped->since) ? -1 : look(a, place, 1);
        if (leaves && !look(a, place, 0))
            return 0;
        if (leaves && attach_is_rest(a, a->stopped->number, NULL, 0)) /* only a signal interrupts it */
            mend(a->thread);
        leaves = !leaves;
    }
}

/* A thread that ends while it is traced is a zombie until its tracer has reaped it, and an execve(2) of another thread
 * waits for that. */
int attach_release(pid_t thread, int signal)
{
    uint64_t until = clock_ns() + UINT64_C(100000000);

    while (ptrace(PTRACE_DETACH, thread, NULL, signal)) {
        int status = attach_wait(thread, until, NULL);

        if (status == -1)
            return -1;
        mend(thread);
        signal = attach_signal(status);
    }
    return 0;
}

int attach_release_late(const struct attach *a, pid_t thread, unsigned milliseconds)
{
    uint64_t until = clock_ns() + milliseconds * UINT64_C(1000000);
    uint64_t look = (milliseconds < LOOK_MS ? milliseconds : LOOK_MS) * UINT64_C(1000000);
    int status;

    do
        status = attach_wait(thread, clock_ns() + look, NULL);
    while (status == -1 && errno != ECHILD && clock_ns() < until && strchr("Rt", attach_thread_state(a, thread)));
    if (status == -1 && errno == ECHILD) /* it has ended; or it has executed another program, and has the first thread's number */
        return ptrace(PTRACE_INTERRUPT, a->pid, NULL, NULL) ? 0 : attach_release(a->pid, 0);
    if (status == -1)
        return -1;
    mend(thread);
    return attach_release(thread, attach_signal(status));
}

/* Traces it, while it runs.  A child that it makes from now on stands still until it is let go. */
static int seize(struct attach *a, pid_t thread)
{
    if (attach_seize(a, thread, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK)) {
        int err = errno;

        if (attach_thread_state(a, thread) != 'X' && attach_thread_state(a, thread) != 'Z')
            attach_refused(a, thread, err);
        return -1;
    }
    a->thread = thread;
    a->child = 0;
    return 0;
}

int attach_leave(struct attach *a, int signal)
{
    a->stray = (mend(a->thread) ? attach_release_late(a, a->thread, LOOK_MS) : attach_release(a->thread, signal)) ? a->thread : 0;
    if (a->child && attach_release((pid_t)a->child, 0))
        a->stray = (pid_t)a->child;
    attach_restore_priority(a);
    a->thread = 0;
    return -1;
}

/* The thread stands still at such a place: 0; or goes on: -1.  `childless`: a child that is there now comes from a
 * clone(2) that began before the thread was traced; it may end at any moment, and the thread is not to be stopped then. */
static int stop_thread(struct attach *a, enum attach_place place, int childless)
{
    attach_raise_priority(a, a->thread);
    a->stopped->since = clock_ns();
    if (interrupt(a, &a->stopped->since) || (childless && attach_has_children(a, a->thread)) ||
        (look(a, place, 1) && follow(a, place)))
        return attach_leave(a, 0);
    ptrace(PTRACE_SETOPTIONS, a->thread, NULL, PTRACE_O_TRACESYSGOOD); /* what we call may make children */
    return 0;
}

static int waits_for_child(const struct attach *a)
{
    return a->stopped->before.number == SYS_wait4 || a->stopped->before.number == SYS_waitid;
}

/* Whether a clone(2) that began before the thread was seized has ended: it is in another system call, or it has run for
 * longer than one takes.  A thread that waits for a processor gets no further, however long that is. */
static int is_behind_clone(const struct attach *a, unsigned long ran)
{
    struct attach_waiting in;
    unsigned long now;

    attach_waits(a, a->thread, &in);
    if (in.thread)
        return in.number != SYS_clone && in.number != SYS_clone3 && in.number != SYS_fork && in.number != SYS_vfork;
    attach_state_and_time(a, a->thread, &now);
    return now - ran >= CLONE_TICKS;
}

/* The seized thread may have made a child before.  The signal of its end goes to the thread, as long as that runs. So it
 * is stopped when it has none; or, if it `keeps` children, when it waits for something else: children that came since
 * stand still.  One that runs may be within a clone(2) that began before, and gets the time to end that.  0; or -1: it
 * was let go. */
static int expect_none(struct attach *a, int waits, int keeps)
{
    uint64_t seized = clock_ns();
    unsigned long ran = 0;
    int status = -1;

    if (!waits)
        attach_state_and_time(a, a->thread, &ran);
    for (unsigned tries = 0; status == -1 && clock_ns() - seized < CHILD_MS * UINT64_C(1000000); tries++) {
        if ((waits ? attach_waits(a, a->thread, &a->stopped->before) : is_behind_clone(a, ran)) &&
            (!attach_has_children(a, a->thread) || (keeps && !waits_for_child(a))))
            return 0;
        attach_pause(tries);
        status = attach_wait(a->thread, 0, NULL);
    }
    if (status == -1)
        interrupt(a, NULL);
    else
        has_forked(a, status);
    return attach_leave(a, status == -1 ? 0 : attach_signal(status));
}

static int try_thread(struct attach *a, enum attach_place place, pid_t thread, int running, int is_only)
{
    int waits = attach_waits(a, thread, &a->stopped->before), is_parent = attach_has_children(a, thread);

    if ((!waits && !running) || (!is_only && is_parent && (!waits || !running || waits_for_child(a))) ||
        thread == a->stray || attach_status_number(a, thread, "Seccomp") || seize(a, thread))
        return -1;
    if ((!is_only && expect_none(a, waits, is_parent)) || stop_thread(a, place, !is_only && !is_parent))
        return -1;
    a->stopped->last = (struct attach_waiting){thread, a->stopped->number, a->stopped->registers.rsp,
                                               a->stopped->registers.rip};
    return 0;
}

/* Tries each thread once: first the one that was stopped before. */
static int try_threads(struct attach *a, enum attach_place place, int running)
{
    struct attach_candidate *list;
    size_t n, tried = 0;
    int err = -1;

    if (a->stopped->last.thread && !try_thread(a, place, a->stopped->last.thread, 0, 0))
        return 0;
    list = attach_candidates(a, &n);
    while (err && tried < n)
        err = try_thread(a, place, list[tried++].thread, running, n == 1);
    free(list);
    return err;
}

/* Whether the command was ended before the process has anything of ours (which.c). */
static int is_to_end(const struct attach *a)
{
    sigset_t pending;

    return !a->stopped->area && !sigpending(&pending) && sigismember(&pending, SIGTERM);
}

int attach_rest(struct attach *a, enum attach_place place, unsigned milliseconds)
{
    uint64_t until = clock_ns() + milliseconds * UINT64_C(1000000);

    if (!a->stopped) {
        a->stopped = must_alloc(1, sizeof *a->stopped);
        a->stopped->xstate = must_alloc(1, XSTATE_MAX);
    }
    a->why[0] = 0;
    for (unsigned round = 1; clock_ns() < until && !attach_has_ended(a) && !attach_has_executed(a); round++) {
        if (a->stray && !attach_release_late(a, a->stray, 0))
            a->stray = 0;
        if (is_to_end(a))
            return attach_fail(a, "process %d: nothing was asked for before the command was ended", a->pid);
        attach_await_priority(a);
        /* One that was let go needs a moment until it waits again, and is not to be stopped before. */
        if (!try_threads(a, place, 0) || (round % PATIENCE == 0 && !try_threads(a, place, 1))) {
            a->why[0] = 0;
            return 0;
        }
        attach_restore_priority(a);
        if (a->why[0])
            return -1;
        nap(200);
    }
    return attach_fail(a, "process %d: no thread of it waited for anything within %u ms", a->pid, milliseconds);
}
