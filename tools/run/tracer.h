/* SPDX-License-Identifier: MIT
 *
 * tracer.h: the process that traces a program over its execv (itself.h).
 */
#ifndef TRACER_H
#define TRACER_H

#include <stdint.h>
#include <sys/types.h>

struct tracing {
    pid_t pid;         /* of the process that calls execv */
    int own, other;    /* ends of a pair of sockets: the tracer's, and the other process's */
    int must;          /* without us the program must not run */
    const char *name;  /* of the subcommand, and */
    const char *file;  /* the program's, for messages */
    const char *loader; /* absolute */
    uint64_t text, enter; /* of the loader (loader/start/exchange.h) */
};

/* The function of a new process, which may share the other one's memory.  It waits for a byte,
 * seizes the other one, and answers with 0 or errno, an int.  After execv it detaches. */
int trace_execution(void *tracing);

#endif
