/* SPDX-License-Identifier: MIT
 *
 * calls PROGRAM ARGUMENT...: which system calls the program makes, as numbers, each once, separated
 * by commas; the execve that starts it is one of them.  Exits with 77 when nobody may trace.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 1024, EXECVE = 59 };

static int trace(pid_t child, char *made)
{
    int status, entering = 1;

    while (waitpid(child, &status, 0) == child && !WIFEXITED(status) && !WIFSIGNALED(status)) {
        struct user_regs_struct registers;
        int signal = WSTOPSIG(status);

        if (signal == (SIGTRAP | 0x80)) {
            if (entering && !ptrace(PTRACE_GETREGS, child, NULL, &registers) && registers.orig_rax < MOST)
                made[registers.orig_rax] = 1;
            entering = !entering;
            signal = 0;
        } else if (signal == SIGTRAP) {
            signal = 0; /* of execve */
            ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
        }
        if (ptrace(PTRACE_SYSCALL, child, NULL, signal))
            return 1;
    }
    return !WIFEXITED(status) || WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
    static char made[MOST];
    pid_t child = argc > 1 ? fork() : -1;

    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
            _exit(77);
        execv(argv[1], argv + 1);
        _exit(127);
    }
    made[EXECVE] = 1;
    int failed = child < 0 || trace(child, made);
    if (failed)
        return made[231 /* exit_group */] ? 1 : 77;
    printf("%d", EXECVE);
    for (int i = 0; i < MOST; i++)
        if (made[i] && i != EXECVE)
            printf(",%d", i);
    putchar('\n');
    return 0;
}
