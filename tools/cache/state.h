/* SPDX-License-Identifier: MIT
 *
 * cache/state.h: what is wrong with something of the store (rimf/store/manifest.h), for `mvld cache`.
 */
#ifndef CACHE_IMAGE_H
#define CACHE_IMAGE_H

#include "rimf/base/sys.h"
#include "rimf/store/manifest.h"

enum cache_state {
    CACHE_GOOD,
    CACHE_STALE,          /* starts take it, but it was made without an analysis, or with another one */
    CACHE_OF_OTHER_FILES, /* the program or a library was replaced: nobody starts from it */
    CACHE_OF_OTHER_MVLD,  /* another build of mvld, or of a pass, made it: that one may be in use */
    CACHE_DAMAGED
};

/* The kernel, without a trace of who reads: times of access say what starts use (cache/items.h). */
extern const struct rimf_sys cache_reader;

/* A folder with the manifest of a start. */
struct cached {
    const char *path;
    struct manifest_file file, later; /* mapped where `map` is not NULL; later: what came by dlopen */
    enum cache_state state;
    char *why; /* or NULL */
};

/* Whether a program would start from it; with `compare`, whether its code is what was written. */
void cached_open(struct cached *, const char *path, int compare);
void cached_close(struct cached *);
/* stale.c: of a manifest of it, an object whose analysis it lacks, or was made with another one: NULL, or a
 * sentence to be freed. */
char *cached_other_analysis(const struct cached *, const struct manifest *);
/* Of a snapshot that is not good: the command that mends it, to be freed. */
char *cached_remedy(const struct cached *);
/* What a manifest's folder may be called. */
int cached_is_folder(const char *name);
/* Whether the file of that name is still this one: NULL, or a sentence to be freed. */
char *cached_other_file(const char *name, const struct file_id *);

/* The lock of the cache of which this is a folder (cache.h), or -1: somebody writes there, or it was never
 * written to by this user. */
int cache_lock_of(const char *folder);
/* With the lock: what a build that was killed has left there, to be freed, or NULL.  *stays: why neither the
 * next build nor prune removes it, or NULL. */
char *cache_left_over(const char *folder, const char **stays);

#endif
