/* SPDX-License-Identifier: MIT
 *
 * enable.h: what `mvld enable`, `disable` and `status` share.
 */
#ifndef ENABLE_H
#define ENABLE_H

#include "tools/changes/changes.h"

/* The file `path`, made for `program`, with this text: its row stands before it is
 * there.  NULL, or what went wrong. */
const char *enable_make_file(const char *path, const char *program, const char *text);

/* Whether a row is about this program: its file, or one made for it. */
int enable_concerns(const struct change *, const char *program);

/* Whether the program was enabled and is there, and does not start from a snapshot that fits. */
int enable_is_stale(const char *program);

/* Runs another subcommand of this command: its exit code. */
int enable_run(const char *const *words);

/* The folder of the configuration that this user writes, to be freed; or NULL: there is none. */
char *enable_config_folder(void);
/* Makes what programs read of the configuration's files. */
int enable_make_config(void);

#endif
