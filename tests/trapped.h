/* SPDX-License-Identifier: MIT
 *
 * A sandbox as browsers have it: system calls are answered by SIGSYS (SECCOMP_RET_TRAP), whose
 * handler refuses them, or makes them itself from the only place from which they are allowed.  The
 * kernel ends a process whose call is trapped while SIGSYS is blocked.
 */
#ifndef TRAPPED_H
#define TRAPPED_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

/* mov $nr … syscall, with the arguments of a C function. */
long trapped_make(long nr, long a, long b, long c, long d, long e, long f);
extern const char trapped_made[];
__asm__(".text\n"
        ".globl trapped_make, trapped_made\n"
        ".type trapped_make, @function\n"
        "trapped_make:\n"
        "    mov %rdi, %rax\n"
        "    mov %rsi, %rdi\n"
        "    mov %rdx, %rsi\n"
        "    mov %rcx, %rdx\n"
        "    mov %r8, %r10\n"
        "    mov %r9, %r8\n"
        "    mov 8(%rsp), %r9\n"
        "    syscall\n"
        "trapped_made:\n"
        "    ret\n"
        ".size trapped_make, . - trapped_make\n");

/* 0: the call is made; else it is answered with this. */
static long (*trapped_decide)(long nr, const long *arguments);

static void trapped_answer(int signal, siginfo_t *info, void *context)
{
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    long a[6] = {r[REG_RDI], r[REG_RSI], r[REG_RDX], r[REG_R10], r[REG_R8], r[REG_R9]};
    long answer = trapped_decide(info->si_syscall, a);

    (void)signal;
    r[REG_RAX] = answer ? answer
                        : trapped_make(info->si_syscall, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* Nonzero: there is no such filter here.  `hosts`: what the host loader calls is trapped, too. */
static inline int trapped_start(long (*decide)(long nr, const long *arguments), int hosts)
{
    /* Which the C library does not make while it blocks all signals. */
    enum { HOSTS = 3, OTHERS = 9, N = HOSTS + OTHERS };
    static const unsigned calls[N] = {
        SYS_openat, SYS_newfstatat, SYS_mprotect,
        SYS_readlinkat, SYS_faccessat, SYS_getdents64, SYS_ioctl, SYS_unshare, SYS_prctl,
        SYS_membarrier, SYS_mremap, SYS_pwrite64,
    };
    struct sock_filter code[N + 7] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(uintptr_t)trapped_made, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer) + 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)((uintptr_t)trapped_made >> 32), N + 1, 0),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    };
    struct sock_fprog program = {N + 7, code};
    struct sigaction action = {.sa_sigaction = trapped_answer, .sa_flags = SA_SIGINFO | SA_NODEFER};

    for (unsigned i = 0; i < N; i++) /* not the host loader's: some other call, once more */
        code[i + 5] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i < HOSTS && !hosts ? HOSTS : i],
                                                   (unsigned char)(N - i), 0);
    code[N + 5] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[N + 6] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
    trapped_decide = decide;
    return sigaction(SIGSYS, &action, NULL) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

#endif
