/* SPDX-License-Identifier: MIT
 *
 * loader/manager/refused.h: what is wrong with a configuration or a pipeline.
 */
#ifndef LOADER_REFUSED_H
#define LOADER_REFUSED_H

#include <stddef.h>

struct loader;

/* A line on standard error, where no MVLD_DEBUG has it.  Once the program has run, not into a regular file: it may
 * have closed standard error, and have a file of its own there. */
void say_line(struct loader *, const char *line, size_t n);
/* "ERROR: mvld: " and the sentence, likewise; `loader` is the struct. */
void say_error(void *loader, const char *why);

/* Says l->refusal on standard error. */
void say_refused(struct loader *);
/* Maps passes that were not mapped yet; when one is refused, none is left. */
void program_complete(struct loader *);

#endif
