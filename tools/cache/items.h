/* SPDX-License-Identifier: MIT
 *
 * cache/items.h: the entries of a cache with their sizes, analyses of missing files, and the
 * cache's limit.
 *
 * The last use is the time of access, which most file systems keep by the day; where they do not,
 * it is the time of writing.  These tools read without changing it.
 */
#ifndef CACHE_ITEMS_H
#define CACHE_ITEMS_H

#include "tools/cache/state.h"
#include "tools/common/tools.h"

enum cache_kind { CACHE_SNAPSHOT, CACHE_ANALYSIS, CACHE_KINDS };

struct cache_item {
    char *path; /* a snapshot's folder, or a file */
    enum cache_kind kind;
    uint64_t size; /* bytes on disk */
    int64_t used;  /* time of last use, in seconds */
};

struct cache_items {
    struct cache_item *at;
    size_t n;
};

/* Fills in `size` and `used`.  0: it is not of its kind. */
int cache_item_measure(struct cache_item *);
/* Adds the entries of this folder, by name.  0, or -1 with errno: it cannot be read. */
int cache_items_add(struct cache_items *, const char *folder);
/* Removes what killed writers of analyses left in this folder. */
void cache_rests_remove(const char *folder);
/* Adds the snapshots that this user's programs may start from: root's, and the user's own. */
void cache_snapshots_add(struct cache_items *);
void cache_items_free(struct cache_items *);

/* The folders of each kind, to be freed: root's, or those of this user; NULL if there is none.  If
 * somebody else can change its path, `subcommand' reports this, if it is not NULL. */
void cache_folders(const char *subcommand, int users, char *to[CACHE_KINDS]);

/* ---- uses.c: analyses that snapshots of the present files were made with, and when these were used ------ */

struct cache_uses {
    struct cache_use {
        uint32_t key; /* analysis_key */
        int64_t used;
    } *at;
    size_t n;
};

void cache_uses_add(struct cache_uses *, const struct cache_items *);
int64_t cache_uses_last(const struct cache_uses *, uint32_t key); /* 0: by none */
void cache_uses_free(struct cache_uses *);

/* ---- items.c, again ---------------------------------------------------------------------- */

/* A file of `mvld analyze'.  `state`: good; of other files, if no file with its build-id is at its
 * path and no snapshot needs it; of another mvld, with another format; or damaged. */
struct cached_analysis {
    struct analysis_file file; /* mapped if `map` is not NULL */
    enum cache_state state;
    char *why; /* or NULL */
};
void cached_analysis_open(struct cached_analysis *, const char *path, const struct cache_uses *, int whole);
void cached_analysis_close(struct cached_analysis *);

/* Removes an item.  0, or negative errno with a sentence (static). */
int cache_item_remove(const struct cache_item *, const char **why);

/* ---- bound.c ---------------------------------------------------------------------------- */

#define CACHE_BOUND (1ul << 30)
#define CACHE_BOUND_VARIABLE "MVLD_CACHE_SIZE"
/* "500M": 0, or -1. */
int cache_read_size(const char *text, uint64_t *size);
/* The value of CACHE_BOUND_VARIABLE, or CACHE_BOUND. */
uint64_t cache_bound(const char *subcommand);
/* Removes and reports (to `json` if it is not NULL) the least recently used entries of this user's
 * cache until it has no more than `bound` bytes; keeps those used since `since`.  Rests go.  0, or -1:
 * something could not be removed. */
int cache_keep_within(const char *subcommand, uint64_t bound, int64_t since, struct json *json);

#endif
