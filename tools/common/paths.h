/* SPDX-License-Identifier: MIT
 *
 * paths.h: paths of the parts of mvld.  A command in a build folder uses the built parts; an
 * installed command the installed ones.
 */
#ifndef PATHS_H
#define PATHS_H

#include <stddef.h>

const char *path_loader(void);      /* ld-mvld.so.1 */
const char *path_library(void);     /* libmultiverse.so.1 */
/* To be freed. */
char *path_mvld(void);    /* the mvld command */
char *path_starter(void); /* mvld-run, which wrappers execute */
/* `relative` to the folder above this command's, to be freed; NULL: nothing is there, or this command is
 * installed. */
char *path_beside(const char *relative);
/* The loader's folders of passes, colon-separated, in order. */
const char *path_passes(void);
/* In a build folder, the folders of the passes for MVLD_PASS_PATH; else NULL: the loader knows its
 * installed passes. */
const char *path_pass_folders(void);
const char *path_host_loader(void); /* the real ld.so: the diverted one when it is there */

/* This user's cache for WHAT.  Returns its length; or 0: *wrong says why somebody else can change
 * its path, or is NULL: there is none. */
size_t path_users_cache(char *to, size_t size, const char *what, const char **wrong);

#endif
