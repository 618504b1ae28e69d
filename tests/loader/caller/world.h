/* SPDX-License-Identifier: MIT
 *
 * What the cases of caller/hooks.c share: a process with a moved caller_call in it.
 */
#ifndef TESTS_LOADER_CALLER_WORLD_H
#define TESTS_LOADER_CALLER_WORLD_H

#include "../kernel.h"

#include "../../rimf/image/process.h"
#include "loader/loader.h"
#include "loader/start/rooms.h"

#define CODE 64 /* bytes of caller_call */

typedef void *call(void *function, const void *a, const void *b, const void *c, const void *d);
call caller_call; /* in a library */
extern call *moved;
extern struct mvld_image *image;

struct loader *start(void);
void prepare(struct loader *l);
/* Every question gets the same answer in original and in moved code. */
void check_hooks(void);

/* The unwinder comes by a dlopen, as glibc opens it for the first backtrace. */
void open_unwinder(void);
/* What it says of moved code: the original, once it is known. */
void check_unwinder(int known);

/* Cases. */
void unwinder(void), unwinder_later(void);
void breakpoints(void), stubs_in_use(void), not_prepared(void), failures(void);

#endif
