/* SPDX-License-Identifier: MIT
 *
 * tracers N COMMAND...: runs COMMAND, and kills the process that it traces itself with at that one's N-th stop at a
 * system call (each stops twice: before and behind).
 *
 * The command runs untraced by then.  Ends as the command ends; with 99 when the tracer had ended by itself, and with
 * 98 when the command hangs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t command;

static void hangs(int signal)
{
    (void)signal;
    kill(command, SIGKILL);
    _exit(98);
}

static void must(long result, const char *what)
{
    if (result < 0) {
        perror(what);
        exit(97);
    }
}

static pid_t next_stop(int *status)
{
    pid_t pid = waitpid(-1, status, __WALL);

    must(pid, "waitpid");
    return pid;
}

/* The command's child's child, stopped where it begins; the command is let go. */
static pid_t find_tracer(void)
{
    pid_t child = 0, tracer = 0;
    int status, has_child = 0, loose = 0, gone = 0;

    while (!tracer || !loose || !gone) {
        pid_t pid = next_stop(&status);
        if (!WIFSTOPPED(status)) {
            if (pid == command)
                exit(96); /* it traces itself with nobody */
            if (pid == child && has_child)
                gone = 1; /* which the command hears of behind us */
            else if (pid == child)
                child = 0; /* one that tried something */
            continue;
        }
        if (pid == command && tracer) {
            must(ptrace(PTRACE_DETACH, pid, 0, 0), "detach");
            loose = 1;
            continue;
        }
        if (pid != command && !child) {
            child = pid;
        } else if (pid != command && pid != child) {
            tracer = pid;
            must(ptrace(PTRACE_INTERRUPT, command, 0, 0), "interrupt");
            continue; /* it waits */
        }
        int event = status >> 16, signal = WSTOPSIG(status);
        has_child |= pid == child && event && event != PTRACE_EVENT_STOP;
        must(ptrace(PTRACE_CONT, pid, 0, event ? 0 : signal), "continue");
    }
    return tracer;
}

int main(int argc, char **argv)
{
    int n = argc > 2 ? atoi(argv[1]) : 0, status, alone = 0;

    signal(SIGALRM, hangs);
    alarm(20);
    command = fork();
    if (!command) {
        raise(SIGSTOP);
        execv(argv[2], argv + 2);
        _exit(127);
    }
    must(waitpid(command, &status, WUNTRACED), "waitpid");
    must(ptrace(PTRACE_SEIZE, command, 0, PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE), "seize");
    kill(command, SIGCONT);
    pid_t tracer = find_tracer();
    for (int stops = 0; !alone; stops++) {
        if (stops == n) {
            kill(tracer, SIGKILL);
            break;
        }
        must(ptrace(PTRACE_SYSCALL, tracer, 0, 0), "to the next call");
        must(waitpid(tracer, &status, __WALL), "waitpid");
        alone = !WIFSTOPPED(status);
    }
    while (waitpid(command, &status, __WALL) != command)
        ;
    if (alone)
        return 99;
    if (WIFSIGNALED(status))
        raise(WTERMSIG(status));
    return WEXITSTATUS(status);
}
