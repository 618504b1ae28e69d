/* SPDX-License-Identifier: MIT
 *
 * tracer.h: the process that traces a program over its execv (itself.h).
 */
#ifndef TRACER_H
#define TRACER_H

#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

struct tracing {
    pid_t pid;         /* of the process that calls execv */
    int own, other;    /* ends of a pair of sockets: the tracer's, and the other process's */
    int must;          /* without us the program must not run */
    const char *name;  /* of the subcommand, and */
    const char *file;  /* the program's, for messages */
    const char *loader; /* absolute */
    uint64_t text, enter; /* of the loader (loader/start/exchange.h) */
    void (*follow)(const struct tracing *); /* NULL: the tracer ends when the program runs */
};

/* The function of a new process, which may share the other one's memory.  It waits for a byte,
 * seizes the other one, and answers with 0 or errno, an int.  After execv it detaches, or calls `follow'. */
int trace_execution(void *tracing);
/* The next thread that has stopped, with its event, or 0 and its signal; -1: all have ended.  A signal's stop is
 * not read (WNOWAIT): after that only we would know of the signal, and it would be lost if we were killed. */
pid_t tracer_wait(int *event, int *signal);
/* Puts our loader into a process that is stopped at the end of execve.  NULL, or why it starts under its own
 * interpreter. */
const char *tracer_exchange(const struct tracing *, pid_t);
/* Takes our loader back, if these are the registers of a process that could not open it: they become those for its
 * own interpreter. */
int tracer_take_back(pid_t, struct user_regs_struct *);

#endif
