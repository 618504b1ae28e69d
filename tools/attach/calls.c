/* SPDX-License-Identifier: MIT
 *
 * attach/calls.c: the system calls in which a thread is at rest.
 *
 * Suitable system calls are those by which an event loop, a worker or a shell waits.  malloc, the
 * host loader and mvld make none of them; their calls (mmap, openat, a futex that is no condition
 * variable) are not in the list.
 *
 * A call with a time-out that was interrupted before goes on as restart_syscall(2).  Neither its registers nor /proc
 * say which call that was; the kernel's function in which the thread waits does.  For a sleep, /proc mostly names the
 * function by which all calls enter the kernel.  Where that is hidden (a kernel without symbols), the call is the one in
 * which we stopped the thread before, if it has not moved since; or unknown, and the thread is left alone: a frame that
 * makes restart_syscall(2) anew ends the call with EINTR.
 *
 * A thread that is let go and stopped again at once may stop when the kernel has prepared restart_syscall(2).  Its registers
 * are set back to those of the interrupted call, since a frame with the prepared ones would end that with EINTR, too.
 */
#include "tools/attach/attach.h"

#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOWEST_POINTER 4096
#define ERESTART_RESTARTBLOCK 516 /* the kernel's: by restart_syscall(2), unless a handler runs */

/* Does a read from this descriptor wait for somebody else? */
static int is_stream(const struct attach *a, uint64_t descriptor)
{
    static const char *const streams[] = {"/dev/pts/", "/dev/tty", "anon_inode:[eventfd]", "anon_inode:[timerfd]",
                                          "anon_inode:[signalfd]"};
    char path[40], name[64];
    struct stat st;
    ssize_t n;

    snprintf(path, sizeof path, "fd/%u", (unsigned)descriptor);
    if (!fstatat(a->folder, path, &st, 0) && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)))
        return 1;
    n = readlinkat(a->folder, path, name, sizeof name - 1);
    name[n > 0 ? n : 0] = 0;
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        if (!strncmp(name, streams[i], strlen(streams[i])))
            return 1;
    return 0;
}

int attach_is_rest(const struct attach *a, uint64_t number, const uint64_t *arguments, int waits)
{
    switch (number) {
    case SYS_poll: case SYS_ppoll: case SYS_select: case SYS_pselect6:
    case SYS_epoll_wait: case SYS_epoll_pwait: case 441: /* epoll_pwait2 */
    case SYS_nanosleep: case SYS_clock_nanosleep: case SYS_accept: case SYS_accept4:
        return 1;
    case SYS_wait4: case SYS_waitid: case SYS_pause: case SYS_rt_sigtimedwait:
    case SYS_recvfrom: case SYS_recvmsg: case SYS_io_getevents: case SYS_io_uring_enter:
        return waits;
    case SYS_read:
        return waits && is_stream(a, arguments[0]);
    case SYS_futex: /* glibc's condition variables, semaphores and pthread_join; its locks take FUTEX_WAIT */
        return waits && (arguments[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
    default:
        return 0;
    }
}

/* The call that is restarted.  Where two calls wait in one function, the first argument decides: a clock or a pointer. */
static uint64_t restarted(const struct attach *a, pid_t thread, uint64_t first)
{
    char *function = attach_thread_file(a, thread, "wchan");
    uint64_t number = SYS_restart_syscall;

    if (!strncmp(function, "poll_schedule_timeout", 21))
        number = SYS_poll;
    else if (!strncmp(function, "futex_", 6))
        number = SYS_futex;
    else if (strstr(function, "nanosleep") || strstr(function, "syscall")) /* the scheduler's functions are not told */
        number = first < LOWEST_POINTER ? SYS_clock_nanosleep : SYS_nanosleep;
    free(function);
    return number;
}

void attach_undo_restart(const struct attach *a, struct user_regs_struct *r)
{
    uint8_t code[2];

    if ((int64_t)r->orig_rax < 0 || r->rax != SYS_restart_syscall || attach_read(a, r->rip, code, sizeof code) ||
        code[0] != 0x0f || code[1] != 0x05) /* syscall */
        return;
    r->rip += sizeof code;
    r->rax = (uint64_t)-ERESTART_RESTARTBLOCK;
}

int attach_waits(const struct attach *a, pid_t thread, struct attach_waiting *w)
{
    char *text = attach_thread_file(a, thread, "syscall");
    const struct attach_waiting *last = &a->stopped->last;
    uint64_t arguments[3];
    int n = sscanf(text, "%lu %lx %lx %lx %*x %*x %*x %lx %lx", &w->number, &arguments[0], &arguments[1], &arguments[2],
                   &w->sp, &w->pc);

    free(text);
    if (n != 6) {
        *w = (struct attach_waiting){0};
        return 0;
    }
    w->thread = thread;
    if (w->number == SYS_restart_syscall)
        w->number = restarted(a, thread, arguments[0]);
    if (w->number == SYS_restart_syscall && last->thread == thread && last->sp == w->sp && last->pc == w->pc)
        w->number = last->number;
    return attach_is_rest(a, w->number, arguments, 1);
}
