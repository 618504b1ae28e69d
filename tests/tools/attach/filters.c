/* SPDX-License-Identifier: MIT
 *
 * filters.c: ways of hard.c in which a thread has a filter of system calls.
 */
#include "hard.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void install(struct sock_filter *filter, size_t n)
{
    struct sock_fprog program = {(unsigned short)n, filter};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        exit(2);
}

/* A filter for this thread that allows all calls but one. */
static void forbid(unsigned call, unsigned action)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };

    install(filter, sizeof filter / sizeof *filter);
}

/* What services allow for themselves: few calls by name. */
static void allow_few(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_poll, 5, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_restart_syscall, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fstat, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };

    install(filter, sizeof filter / sizeof *filter);
}

/* Nothing but read, write, exit and sigreturn. */
static void wait_strictly(void)
{
    char byte;

    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) || write(STDOUT_FILENO, "ready\n", 6) != 6)
        exit(2);
    if (read(STDIN_FILENO, &byte, 1) == 0 && write(STDOUT_FILENO, "whole\n", 6) == 6)
        syscall(SYS_exit, 0);
}

void by_filter(void)
{
    static const struct {
        const char *name;
        unsigned action;
    } kinds[] = {{"kill", SECCOMP_RET_KILL_PROCESS}, {"errno", SECCOMP_RET_ERRNO | ENOSYS}, {"trap", SECCOMP_RET_TRAP},
                 {"log", SECCOMP_RET_LOG}, {"allow", SECCOMP_RET_ALLOW}};

    setvbuf(stdout, NULL, _IONBF, 0); /* a buffer is memory from mmap(2) */
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(arguments[2], kinds[i].name))
            forbid(SYS_mmap, kinds[i].action);
    if (!strcmp(arguments[2], "strict"))
        wait_strictly();
    if (!strcmp(arguments[2], "few"))
        allow_few();
    wait_for_input();
}

static int ended;

static void *waits_filtered(void *nothing)
{
    if (!strcmp(arguments[1], "late")) {
        puts("ready");
        poll(NULL, 0, 1500);
    }
    forbid(SYS_mmap, SECCOMP_RET_KILL_PROCESS);
    wait_for_input();
    __atomic_store_n(&ended, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &ended, FUTEX_WAKE, 1, NULL, NULL, 0);
    return nothing;
}

/* Its first thread waits as for a lock, which is no place of rest. */
void by_filtered(void)
{
    setvbuf(stdout, NULL, _IONBF, 0); /* a buffer is memory from mmap(2) */
    start(waits_filtered);
    while (!__atomic_load_n(&ended, __ATOMIC_SEQ_CST))
        syscall(SYS_futex, &ended, FUTEX_WAIT, 0, NULL, NULL, 0);
}

static void *waits_for_events(void *nothing)
{
    struct epoll_event event = {.events = EPOLLIN};
    int set = epoll_create1(0);

    forbid(SYS_mmap, SECCOMP_RET_ALLOW);
    epoll_ctl(set, EPOLL_CTL_ADD, STDIN_FILENO, &event);
    puts("ready");
    puts(epoll_wait(set, &event, 1, -1) == 1 ? "whole" : strerror(errno));
    exit(0);
    return nothing;
}

/* Its first thread never waits, and is nearly always within a clone(2). */
void by_clones(void)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    start(waits_for_events);
    for (;;) {
        pid_t child = make_child();

        if (!child)
            _exit(0);
        while (waitpid(child, NULL, WNOHANG) == 0)
            ;
    }
}
