/* SPDX-License-Identifier: MIT
 *
 * changes/made.h: files that mvld makes, and removes if nobody has changed them.
 */
#ifndef CHANGES_MADE_H
#define CHANGES_MADE_H

#include <stddef.h>

/* The checksum of a file's content for the record of changes; to be freed. */
char *made_sum(const void *text, size_t size);

/* Creates the file, completely or not at all, on the disk; an existing file is kept, and is an
 * error.  NULL, or the error. */
const char *made_write(const char *path, const void *text, size_t size, unsigned mode);

/* Returns 1 if the file is unchanged, 0 if it is missing, -1 if it was changed. */
int made_stands(const char *path, const char *sum);

/* NULL: removed.  Otherwise the error. */
const char *made_remove(const char *path, const char *sum);

/* The folder of this file goes, if nothing is in it, then that one's, and so on: at most n. */
void made_remove_folders(const char *path, int n);

#endif
