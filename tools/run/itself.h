/* SPDX-License-Identifier: MIT
 *
 * itself.h: a program's unchanged file is executed, and our loader takes its interpreter's place.
 */
#ifndef ITSELF_H
#define ITSELF_H

/* Executes `file` as execv does, with `loader` in the place of its interpreter.  Returns only when that cannot be:
 * a phrase that says why; nothing has changed then.  NULL: the execution itself failed, with errno.
 *
 * This process keeps its pid, parent, children and what else execv keeps: a process that is not its child traces it
 * over execv (itself.c).  Where the tracer ends early, the program runs under its own interpreter; with `must`
 * it ends instead. */
const char *execute_itself(const char *loader, const char *file, char **argv, int must);

#endif
