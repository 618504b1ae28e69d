/* SPDX-License-Identifier: MIT
 *
 * cache/state.h: the state of a cache entry (rimf/store/manifest.h), for `mvld cache`.
 */
#ifndef CACHE_IMAGE_H
#define CACHE_IMAGE_H

#include "rimf/base/sys.h"
#include "rimf/store/manifest.h"

enum cache_state {
    CACHE_GOOD,
    CACHE_STALE,          /* used by starts, but made without an analysis, or with another one */
    CACHE_OF_OTHER_FILES, /* the program or a library was replaced: no start uses it */
    CACHE_OF_OTHER_MVLD,  /* made by another build of mvld, or of a pass, which may be in use */
    CACHE_DAMAGED
};

/* System calls that do not change times of access, which show what starts use (cache/items.h). */
extern const struct rimf_sys cache_reader;

/* A folder with the manifest of a start. */
struct cached {
    const char *path;
    struct manifest_file file, later; /* mapped if `map` is not NULL; later: objects of dlopen */
    enum cache_state state;
    char *why; /* or NULL */
};

/* Whether a program would start from it; with `compare`, also whether its code is unchanged. */
void cached_open(struct cached *, const char *path, int compare);
void cached_close(struct cached *);
/* stale.c: finds an object of a manifest that lacks its present analysis: NULL, or a sentence to be
 * freed. */
char *cached_other_analysis(const struct cached *, const struct manifest *);
/* Whether the present analysis of the i-th object of a start's manifest was missing when it was made. */
int cached_lacks(const struct cached *, uint32_t i);
/* For a snapshot that is not good: the command that renews it, to be freed. */
char *cached_remedy(const struct cached *);
/* The command that builds the program's snapshot, to be freed. */
char *cached_build(const char *program, int analyses);
/* Valid names of a manifest's folder. */
int cached_is_folder(const char *name);
/* Whether the file of that name is unchanged: NULL, or a sentence to be freed. */
char *cached_other_file(const char *name, const struct file_id *);

/* Takes the lock of this folder's cache (cache.h), or returns -1: somebody writes to it, or this
 * user never wrote to it. */
int cache_lock_of(const char *folder);
/* With the lock held: the rest of a killed build, to be freed, or NULL.  *stays: why neither the
 * next build nor prune removes it, or NULL. */
char *cache_left_over(const char *folder, const char **stays);

#endif
