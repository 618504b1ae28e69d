/* SPDX-License-Identifier: MIT
 *
 * loader/manager/refused.h: what is wrong with a configuration or a pipeline.
 */
#ifndef LOADER_REFUSED_H
#define LOADER_REFUSED_H

#include <stddef.h>

struct loader;

/* A line on standard error, where no MVLD_DEBUG has it. */
void say_line(struct loader *, const char *line, size_t n);

/* Says l->refusal on standard error. */
void say_refused(struct loader *);
/* Maps passes that were not mapped yet; when one is refused, none is left. */
void program_complete(struct loader *);

#endif
