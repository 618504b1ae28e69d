/* SPDX-License-Identifier: MIT
 *
 * itself.h: executes a program's unchanged file with our loader as its interpreter.
 */
#ifndef ITSELF_H
#define ITSELF_H

#include <sys/types.h>

struct tracing;

/* Executes `file` as execv does, with `loader` instead of its interpreter.  Returns only if that is
 * impossible: a phrase with the reason; then nothing has changed.  NULL: the execution itself
 * failed, with errno.
 *
 * This process keeps its pid, parent, children and everything else that execv keeps: a process that
 * is not its child traces it over execv (itself.c).  If the tracer ends early, the program runs
 * under its own interpreter; with `must` it ends instead.  `follow`: what the tracer does
 * from then on, or NULL (tracer.h). */
const char *execute_itself(const char *loader, const char *file, char **argv, int must,
                           void (*follow)(const struct tracing *));

/* Whether a process, 0: this one, may have so little memory that our loader could take what the program needs; also
 * where the kernel does not say it. */
int memory_is_short(pid_t);

/* Why this file is no loader, or not all of one: a process that executes it would crash; or NULL. */
const char *loader_damage(const char *loader);

#endif
