/* SPDX-License-Identifier: MIT
 *
 * reach.h: one request to the multiverse library of a process that runs.
 */
#ifndef REACH_H
#define REACH_H

#include "tools/attach/attach.h"

struct reach {
    struct attach *attach; /* `why` of it has the sentence of an error */
    uint64_t function; /* multiverse_request() in the process; 0: the library must be brought in */
};

/* Looks for the library.  0, or -1.  reach_close() in any case. */
int reach_open(struct reach *, pid_t);
/* From here until reach_close() one thread stands still.  0, or -1. */
int reach_begin(struct reach *);
/* The answer, which the caller frees; NULL: error. */
char *reach_ask(struct reach *, const char *request);
void reach_close(struct reach *);

#endif
