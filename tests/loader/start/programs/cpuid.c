/* SPDX-License-Identifier: MIT
 *
 * cpuid PROGRAM ARGUMENT...: each cpuid that the program executes before its loader looks for
 * /etc/ld.so.preload (access(2)), one a line: leaf, subleaf and the four answers.  Single steps.
 */
#define _GNU_SOURCE /* process_vm_readv */
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static int at(pid_t pid, unsigned long long address, unsigned char second)
{
    unsigned char code[2] = {0};
    struct iovec here = {code, 2}, there = {(void *)address, 2};

    process_vm_readv(pid, &here, 1, &there, 1, 0);
    return code[0] == 0x0f && code[1] == second;
}

int main(int argc, char **argv)
{
    struct user_regs_struct before = {0}, after;
    pid_t pid = argc > 1 ? fork() : -1;
    int status;

    if (!pid) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execv(argv[1], argv + 1);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return 1;
    for (; WIFSTOPPED(status); before = after) {
        if (ptrace(PTRACE_GETREGS, pid, 0, &after))
            return 77;
        if (before.rip && at(pid, before.rip, 0xa2)) /* cpuid */
            printf("%llx %llx: %llx %llx %llx %llx\n", before.rax & 0xffffffff,
                   before.rcx & 0xffffffff, after.rax, after.rbx, after.rcx, after.rdx);
        if (at(pid, after.rip, 0x05) && after.rax == SYS_access)
            break;
        ptrace(PTRACE_SINGLESTEP, pid, 0, 0);
        if (waitpid(pid, &status, 0) != pid)
            return 1;
    }
    ptrace(PTRACE_DETACH, pid, 0, 0);
    return waitpid(pid, &status, 0) != pid || status;
}
