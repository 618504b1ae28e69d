/* SPDX-License-Identifier: MIT
 *
 * paths.h: where the parts of mvld lie.  A command in a build folder takes what
 * was built beside it; an installed one what was installed.
 */
#ifndef PATHS_H
#define PATHS_H

#include <stddef.h>

const char *path_loader(void);      /* ld-mvld.so.1 */
const char *path_library(void);     /* libmultiverse.so.1 */
/* Where the loader looks for passes, colon-separated, the first one first. */
const char *path_passes(void);
/* In a build folder, the folders of the passes as MVLD_PASS_PATH wants them; else
 * NULL: the loader knows where they are installed. */
const char *path_pass_folders(void);
const char *path_host_loader(void); /* the real ld.so: the diverted one when it is there */

/* This user's cache for WHAT.  Its length; or 0, and *wrong says why somebody else can change where it
 * leads, or is NULL: there is none. */
size_t path_users_cache(char *to, size_t size, const char *what, const char **wrong);

#endif
