/* SPDX-License-Identifier: MIT
 *
 * changes/made.h: text files that mvld makes, and takes away again when nobody has changed them.
 */
#ifndef CHANGES_MADE_H
#define CHANGES_MADE_H

/* The sum of a text, as the record of changes has it; to be freed. */
char *made_sum(const char *text);

/* Makes the file, whole or not at all, and on the disk; what is there stays, and is an error.  NULL, or what went
 * wrong. */
const char *made_write(const char *path, const char *text, unsigned mode);

/* 1 when the file is as it was made, 0 when it is gone, -1 when it was changed. */
int made_stands(const char *path, const char *sum);

/* NULL: it is gone.  Else what went wrong. */
const char *made_remove(const char *path, const char *sum);

/* The folder of this file goes, if nothing is in it.  1: it is gone. */
int made_remove_folder(const char *path);

#endif
