/* SPDX-License-Identifier: MIT
 *
 * follow.h: a tracer that puts our loader into each program that descends from one.
 */
#ifndef FOLLOW_H
#define FOLLOW_H

#include "tools/run/tracer.h"

/* The program of `tracing` is stopped at the end of its execve.  Returns when none of its descendants is traced any
 * more. */
void follow_descendants(const struct tracing *);

#endif
