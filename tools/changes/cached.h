/* SPDX-License-Identifier: MIT
 *
 * changes/cached.h: what is made of programs and of configurations, and goes when these changes are taken back:
 * snapshots, analyses, config.cache.
 */
#ifndef CHANGES_CACHED_H
#define CHANGES_CACHED_H

/* The program's snapshots, in the cache that belongs to the record of changes: the machine's, or this user's own.  With
 * a record of its own (MVLD_STATE) nothing, because other records' programs have the cache, too. */
void cached_snapshots_remove(const char *program);

/* With the record's lock held: the folder of this cache, but not the cache, with a row if it is new (changes_make_folders). */
const char *cached_make_folder(const char *record);

/* This cache whole: analyses, and snapshots of all programs; likewise. */
void cached_remove_all(void);

/* What config.cache has of the file `path`, which `enable` made for the program.  Where nothing else is configured, it
 * goes. */
void cached_config_forget(const char *path, const char *program);

/* For who writes config.cache, at this path, anew: removes what killed writers left beside it, unless others write now.
 * Returns a descriptor; until it is closed, nobody removes what is left now; or -1. */
int cached_config_lock(const char *path);

#endif
