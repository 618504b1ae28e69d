/* SPDX-License-Identifier: MIT
 *
 * tracer.h: the process that traces a program over its execv (itself.h).
 */
#ifndef TRACER_H
#define TRACER_H

#include <stdint.h>
#include <sys/types.h>

struct tracing {
    pid_t pid;         /* of who calls execv */
    int own, other;    /* ends of a pair of sockets: the tracer's, and that of who calls execv */
    int must;          /* without us nothing of the program may run */
    const char *name;  /* of the subcommand, and */
    const char *file;  /* of the program: for what is said */
    const char *loader; /* absolute */
    uint64_t text, enter; /* of the loader (loader/start/exchange.h) */
};

/* What a new process runs; it may share the memory of the other one.  It waits for a byte, seizes the other one, and
 * answers with 0 or errno, an int.  Behind execv it lets the process go. */
int trace_execution(void *tracing);

#endif
