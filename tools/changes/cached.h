/* SPDX-License-Identifier: MIT
 *
 * changes/cached.h: what is made of programs and of configurations, and goes when these changes are taken back:
 * snapshots, analyses, config.cache.
 */
#ifndef CHANGES_CACHED_H
#define CHANGES_CACHED_H

/* The program's snapshots, in the cache that belongs to the record of changes: the machine's below `root`, or this
 * user's own. */
void cached_snapshots_remove(const char *root, const char *program);

/* This cache whole: analyses, and snapshots of all programs; with a record of its own (MVLD_STATE) nothing, because
 * others have the cache, too. */
void cached_remove_all(const char *root);

/* What config.cache has of `file`, which `enable` made for the program and which is at `path` now.  Where
 * nothing else is configured, it goes. */
void cached_config_forget(const char *path, const char *file, const char *program);

#endif
