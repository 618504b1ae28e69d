/* SPDX-License-Identifier: MIT
 *
 * loader/manager/refused.h: reports errors in a configuration or a pipeline.
 */
#ifndef LOADER_REFUSED_H
#define LOADER_REFUSED_H

struct loader;

/* Writes a line to standard error, if no MVLD_DEBUG has it.  Once the program has run, not to a regular
 * file: the program may have closed standard error, and opened a file of its own there. */
void say_line(struct loader *, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "ERROR: mvld: " and the sentence, likewise; `loader` is the struct. */
void say_error(void *loader, const char *why);

/* Writes l->refusal to standard error. */
void say_refused(struct loader *);
/* Maps passes that were not mapped yet; if one is refused, there is none. */
void program_complete(struct loader *);

#endif
