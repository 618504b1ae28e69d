/* SPDX-License-Identifier: MIT
 *
 * which.h: the processes that a command line means.
 */
#ifndef WHICH_H
#define WHICH_H

#include <stddef.h>
#include <sys/types.h>

struct processes {
    pid_t *pid;
    size_t n;
};

/* -p PID.  0; or -1, and it is said that it is no number of a process. */
int processes_add(struct processes *, const char *subcommand, const char *number);
/* All but this one that are wanted; how many were added.  `folder` is /proc. */
size_t processes_all(struct processes *, int (*is_wanted)(int folder, const char *number, const void *cookie),
                     const void *cookie);

#endif
