/* SPDX-License-Identifier: MIT
 *
 * A filter that kills for every system call but those of a program that starts, reads files,
 * opens libraries and starts a thread, and of mvld where a filter is in force.
 */
#ifndef EXPECTED_H
#define EXPECTED_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static inline int expected_only(void)
{
    static const unsigned expected[] = {
        /* the host loader's and the C library's */
        SYS_execve, SYS_brk, SYS_arch_prctl, SYS_access, SYS_openat, SYS_read, SYS_pread64,
        SYS_stat, SYS_fstat, SYS_newfstatat, SYS_close, SYS_mmap, SYS_mprotect, SYS_munmap,
        SYS_set_tid_address, SYS_set_robust_list, SYS_rseq, SYS_prlimit64, SYS_getrandom,
        SYS_rt_sigprocmask, SYS_rt_sigaction, SYS_futex, SYS_madvise, SYS_clone3, SYS_clone,
        SYS_ioctl, SYS_lseek, SYS_write, SYS_exit, SYS_exit_group,
        /* mvld's, besides; fcntl: MVLD_DEBUG's */
        SYS_readlinkat, SYS_faccessat, SYS_getdents64, SYS_gettid, SYS_getpid, SYS_geteuid,
        SYS_fcntl,
    };
    enum { N = sizeof expected / sizeof *expected };
    struct sock_filter code[N + 3] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    struct sock_fprog program = {N + 3, code};

    for (unsigned i = 0; i < N; i++)
        code[i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, expected[i],
                                                   (unsigned char)(N - i), 0);
    code[N + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    code[N + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

#endif
