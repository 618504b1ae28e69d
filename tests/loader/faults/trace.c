/* SPDX-License-Identifier: MIT */
#include "trace.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SECCOMP_ADDFD_FLAG_SEND /* Linux 5.14 */
#define SECCOMP_ADDFD_FLAG_SEND (1UL << 1)
#endif

#ifndef SECCOMP_IOCTL_NOTIF_SET_FLAGS /* Linux 6.6: asking and answering is faster */
#define SECCOMP_IOCTL_NOTIF_SET_FLAGS SECCOMP_IOW(4, __u64)
#define SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP 1UL
#endif

enum { RANGES = 256, SECONDS = 20 };

/* ---- whose text an address is in ------------------------------------------------------ */

/* The executable mappings, as they were when an address was last not found in them. */
static struct range {
    unsigned long start, end, offset;
    int file; /* of the program's list, or -1 */
} ranges[RANGES];
static size_t n_ranges;

static int file_of(const struct program *program, const char *path)
{
    for (size_t i = 0; i < program->n_files; i++)
        if (!strcmp(path, program->files[i]))
            return (int)i;
    return -1;
}

static void read_ranges(const struct program *program, pid_t tid)
{
    char name[64], line[4400], path[4200], right;
    FILE *maps;

    snprintf(name, sizeof name, "/proc/%d/maps", (int)tid);
    maps = fopen(name, "r");
    n_ranges = 0;
    while (maps && n_ranges < RANGES && fgets(line, sizeof line, maps)) {
        struct range *r = &ranges[n_ranges];

        path[0] = 0;
        if (sscanf(line, "%lx-%lx %*c%*c%c%*c %lx %*s %*s %4199[^\n]", &r->start, &r->end, &right,
                   &r->offset, path) < 4 || right != 'x')
            continue;
        r->file = file_of(program, path);
        n_ranges++;
    }
    if (maps)
        fclose(maps);
}

static const struct range *range_of(const struct program *program, pid_t tid, unsigned long at)
{
    for (int again = 0; again < 2; again++) {
        for (size_t i = 0; i < n_ranges; i++)
            if (at >= ranges[i].start && at < ranges[i].end)
                return &ranges[i];
        read_ranges(program, tid);
    }
    return NULL;
}

/* ---- one call ---------------------------------------------------------------------------- */

/* 1 when this call is to fail. */
static int decide(struct program *program, struct run *run, const struct seccomp_notif *asked)
{
    unsigned long at = asked->data.instruction_pointer;
    const struct range *range = range_of(program, (pid_t)asked->pid, at);
    long number = asked->data.nr, k;

    if (!range || range->file < 0 || number == SYS_exit_group || number == SYS_rt_sigreturn)
        return 0;
    k = (long)run->n_calls++;
    if (run->before)
        run->before(k, asked);
    if (run->fails < 0 && k < CALLS) {
        struct call *call = &program->calls[k];

        call->number = number;
        call->file = range->file;
        call->offset = at - range->start + range->offset;
        for (int i = 0; i < 6; i++)
            call->arguments[i] = asked->data.args[i];
        program->n_calls = run->n_calls;
    }
    if (k == run->fails)
        run->failed = number;
    return k == run->fails || (run->lasting && run->fails >= 0 && k > run->fails &&
                               number == program->calls[run->fails].number);
}

/* ---- our filter is not there ----------------------------------------------------------------- */

static int is_of_status(const struct program *program, const struct seccomp_notif *asked)
{
    static const char first[] = "/proc/self/status", any[] = "/proc/thread-self/status";
    char path[sizeof any] = "";
    struct iovec here = {path, sizeof path}, there = {(void *)asked->data.args[1], sizeof path};

    return asked->data.nr == SYS_openat && !program->shown &&
           process_vm_readv((pid_t)asked->pid, &here, 1, &there, 1, 0) == sizeof path &&
           (!memcmp(path, first, sizeof first) || !memcmp(path, any, sizeof any));
}

/* A descriptor of a file that says what that one says, but of the filter; or -1. */
static int status_without(pid_t tid)
{
    char path[40], text[8192];
    int file, copy = memfd_create("status", MFD_CLOEXEC);
    ssize_t n;
    char *line;

    snprintf(path, sizeof path, "/proc/%d/status", tid);
    file = open(path, O_RDONLY | O_CLOEXEC);
    n = file < 0 ? -1 : read(file, text, sizeof text - 1);
    close(file);
    if (n < 0)
        return -1;
    text[n] = 0;
    line = strstr(text, "\nSeccomp:\t");
    if (line)
        line[sizeof "\nSeccomp:\t" - 1] = '0';
    if (write(copy, text, (size_t)n) != n || lseek(copy, 0, SEEK_SET))
        exit(3);
    return copy;
}

/* 1 when that was the answer. */
static int hide(const struct program *program, const struct seccomp_notif *asked, int listener)
{
    struct seccomp_notif_addfd add = {.id = asked->id, .flags = SECCOMP_ADDFD_FLAG_SEND,
                                      .newfd_flags = O_CLOEXEC};
    int file = is_of_status(program, asked) ? status_without((pid_t)asked->pid) : -1, done;

    if (file < 0)
        return 0;
    add.srcfd = (unsigned)file;
    done = ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add) >= 0;
    close(file);
    return done;
}

static void answer(struct program *program, struct run *run, int listener)
{
    struct seccomp_notif asked = {0};
    struct seccomp_notif_resp answer = {0};

    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked))
        return; /* it was killed meanwhile */
    if (asked.data.nr == SYS_execve)
        n_ranges = 0;
    answer.id = asked.id;
    if (decide(program, run, &asked))
        answer.error = -run->error;
    else if (hide(program, &asked, listener))
        return;
    else
        answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}

/* ---- the process ---------------------------------------------------------------------------- */

/* With sendmsg, of which nobody is asked, the child hands its listener over. */
static int filter(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sendmsg, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return -1;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                        &program);
}

union control {
    char room[CMSG_SPACE(sizeof(int))];
    struct cmsghdr header;
};

static struct msghdr message(union control *control, struct iovec *byte)
{
    return (struct msghdr){.msg_iov = byte, .msg_iovlen = 1, .msg_control = control->room,
                           .msg_controllen = sizeof control->room};
}

static void start(const struct program *program, int socket, int out, int err)
{
    char **command = program->command;
    union control control = {0};
    struct iovec byte = {"", 1};
    struct msghdr m = message(&control, &byte);
    int listener;

    for (; strchr(command[0], '='); command++)
        putenv(command[0]);
    personality(ADDR_NO_RANDOMIZE);
    dup2(out, 1);
    dup2(err, 2);
    close(out);
    close(err);
    fcntl(socket, F_SETFD, FD_CLOEXEC);
    listener = filter(); /* with O_CLOEXEC */
    control.header = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.header), &listener, sizeof listener);
    if (listener < 0 || sendmsg(socket, &m, 0) != 1)
        _exit(125);
    execv(command[0], command);
    _exit(126);
}

/* The child's listener, or -1. */
static int take_listener(int socket)
{
    union control control = {0};
    char byte_room;
    struct iovec byte = {&byte_room, 1};
    struct msghdr m = message(&control, &byte);
    int listener = -1;

    if (recvmsg(socket, &m, MSG_CMSG_CLOEXEC) == 1 && control.header.cmsg_type == SCM_RIGHTS)
        memcpy(&listener, CMSG_DATA(&control.header), sizeof listener);
    return listener;
}

/* Until nobody is left who could ask. */
static void follow(struct program *program, struct run *run, pid_t pid, int listener)
{
    struct timespec now, end;

    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += SECONDS;
    for (;;) {
        struct pollfd wait = {listener, POLLIN, 0};

        if (poll(&wait, 1, 1000) > 0) {
            if (wait.revents & POLLIN)
                answer(program, run, listener);
            else
                return;
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec > end.tv_sec && !run->endless) {
            run->endless = 1;
            kill(-pid, SIGKILL);
        }
    }
}

static void take_text(int fd, char *text)
{
    ssize_t n = pread(fd, text, TEXT - 1, 0);

    text[n > 0 ? n : 0] = 0;
    close(fd);
}

void trace(struct program *program, struct run *run)
{
    int out = memfd_create("out", 0), err = memfd_create("err", 0), pair[2], listener;
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
        exit(3);
    pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        start(program, pair[1], out, err);
    }
    close(pair[1]);
    listener = take_listener(pair[0]);
    close(pair[0]);
    if (listener < 0) {
        printf("skipped: seccomp_unotify(2) is not permitted here\n");
        exit(77);
    }
    ioctl(listener, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP);
    run->endless = 0;
    run->n_calls = 0;
    run->failed = -1;
    n_ranges = 0;
    follow(program, run, pid, listener);
    close(listener);
    waitpid(pid, &run->status, 0);
    take_text(out, run->out);
    take_text(err, run->err);
}
