/* SPDX-License-Identifier: MIT
 *
 * confine HOW... -- PROGRAM ARGUMENT...: starts a program under a restriction.
 *
 *   no-open      seccomp: open(2) fails, openat does not
 *   no-exec      seccomp: mprotect with PROT_EXEC fails, mmap writable and
 *                executable fails (systemd's MemoryDenyWriteExecute)
 *   no-memfile   seccomp: pwrite64 fails (so /proc/self/mem cannot be written)
 *   no-advice    seccomp: madvise kills
 *   no-sync      seccomp: fsync kills
 *   expected     seccomp: every call kills but those of expected.h
 *   only=N,N…    seccomp: every call kills but those of these numbers
 *   mdwe         PR_SET_MDWE
 *   closed       descriptors 0, 1 and 2 are closed
 *   stack=KiB    RLIMIT_STACK
 *   space=MiB    RLIMIT_AS
 *
 * Exits with 77 when the kernel does not know the restriction.
 */
#define _GNU_SOURCE
#include "expected.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#endif

#define NUMBER offsetof(struct seccomp_data, nr)
#define THIRD offsetof(struct seccomp_data, args[2])

static int filter(struct sock_filter *code, unsigned short n)
{
    struct sock_fprog program = {n, code};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int deny(unsigned number, unsigned how)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, NUMBER),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, how),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };

    return filter(code, sizeof code / sizeof *code);
}

static int deny_exec(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, NUMBER),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 2, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, THIRD),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 2, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, THIRD),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PROT_READ | PROT_WRITE | PROT_EXEC, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };

    return filter(code, sizeof code / sizeof *code);
}

static int allow(const char *numbers)
{
    enum { MOST = 200 };
    struct sock_filter code[2 * MOST + 2] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, NUMBER)};
    unsigned short n = 1;
    char *end;

    for (; n < 2 * MOST && *numbers; numbers = *end ? end + 1 : end) {
        unsigned number = (unsigned)strtoul(numbers, &end, 10);

        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    return filter(code, n);
}

static int limit(int what, const char *number, unsigned long unit)
{
    struct rlimit value;

    value.rlim_cur = value.rlim_max = strtoul(number, NULL, 10) * unit;
    return setrlimit(what, &value);
}

static int confine(const char *how)
{
    if (!strcmp(how, "no-open"))
        return deny(SYS_open, SECCOMP_RET_ERRNO | EPERM);
    if (!strcmp(how, "no-exec"))
        return deny_exec();
    if (!strcmp(how, "no-memfile"))
        return deny(SYS_pwrite64, SECCOMP_RET_ERRNO | EPERM);
    if (!strcmp(how, "no-advice"))
        return deny(SYS_madvise, SECCOMP_RET_KILL_PROCESS);
    if (!strcmp(how, "no-sync"))
        return deny(SYS_fsync, SECCOMP_RET_KILL_PROCESS);
    if (!strcmp(how, "expected"))
        return expected_only();
    if (!strncmp(how, "only=", 5))
        return allow(how + 5);
    if (!strcmp(how, "mdwe"))
        return prctl(PR_SET_MDWE, 1, 0, 0, 0);
    if (!strcmp(how, "closed"))
        return close(0) | close(1) | close(2);
    if (!strncmp(how, "stack=", 6))
        return limit(RLIMIT_STACK, how + 6, 1024);
    if (!strncmp(how, "space=", 6))
        return limit(RLIMIT_AS, how + 6, 1024 * 1024);
    return 2;
}

int main(int argc, char **argv)
{
    int i = 1;

    for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (confine(argv[i])) {
            printf("skipped: %s: %s\n", argv[i], strerror(errno));
            return 77;
        }
    }
    execv(argv[i + 1], argv + i + 1);
    perror(argv[i + 1]);
    return 126;
}
