/* SPDX-License-Identifier: MIT
 *
 * which.h: the processes that a command line names.
 */
#ifndef WHICH_H
#define WHICH_H

#include <stddef.h>
#include <sys/types.h>

struct json; /* tools/common/tools.h */

struct processes {
    pid_t *pid;
    size_t n;
};

/* -p PID; one that is listed stays there once.  0; or -1 after an error message. */
int processes_add(struct processes *, const char *subcommand, const char *number);
/* Adds all wanted processes except this one; returns their number.  `folder` is /proc. */
size_t processes_all(struct processes *, int (*is_wanted)(int folder, const char *number, const void *cookie),
                     const void *cookie);
/* Visits them in order, as elements of a JSON array if `json`, else with NULL.  Returns the visits' exit codes, or-ed. */
int processes_visit(const struct processes *, int (*visit)(pid_t, const void *cookie, struct json *), const void *cookie,
                    int json);

#endif
