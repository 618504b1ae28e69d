/* SPDX-License-Identifier: MIT
 *
 * enable.h: what `mvld enable`, `disable` and `status` share.
 */
#ifndef ENABLE_H
#define ENABLE_H

#include "tools/changes/changes.h"

/* Records the file `path` as one made for `program`, then writes it.  NULL, or what went wrong. */
const char *enable_make_file(const char *path, const char *program, const char *text);

/* Whether a row is of this program's own file, or of a file that was made for it. */
int enable_concerns(const struct change *, const char *program);

/* Whether the program was enabled and is there, and does not start from a snapshot that fits. */
int enable_is_stale(const char *program);

/* Runs another subcommand of mvld.  Returns its exit code. */
int enable_run(const char *const *words);

/* The folder of the configuration that this user writes, to be freed; or NULL: there is none. */
char *enable_config_folder(void);
/* Runs `mvld config`, which makes config.cache.  Returns its exit code. */
int enable_make_config(void);

#endif
