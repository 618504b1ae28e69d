/* SPDX-License-Identifier: MIT
 *
 * reach.h: a request to the multiverse library of a running process.
 */
#ifndef REACH_H
#define REACH_H

#include "tools/attach/attach.h"

struct reach {
    struct attach *attach; /* its `why` has the error sentence */
    uint64_t function; /* address of multiverse_request() in the process; 0: the library must be
                        * opened first */
};

/* Looks for the library.  0, or -1.  reach_close() in any case. */
int reach_open(struct reach *, pid_t);
/* Opens the library if it is not there.  0, or -1. */
int reach_begin(struct reach *);
/* The answer, which the caller frees; NULL: error.  A thread is stopped while it makes the answer, and no longer. */
char *reach_ask(struct reach *, const char *request);
void reach_close(struct reach *);

#endif
