/* SPDX-License-Identifier: MIT
 *
 * which.h: the processes that a command line names.
 */
#ifndef WHICH_H
#define WHICH_H

#include <stddef.h>
#include <sys/types.h>

struct processes {
    pid_t *pid;
    size_t n;
};

/* -p PID; one that is listed stays there once.  0; or -1 after an error message. */
int processes_add(struct processes *, const char *subcommand, const char *number);
/* Adds all wanted processes except this one; returns their number.  `folder` is /proc. */
size_t processes_all(struct processes *, int (*is_wanted)(int folder, const char *number, const void *cookie),
                     const void *cookie);

#endif
