/* SPDX-License-Identifier: MIT
 *
 * loader/config/config.h: the configuration of one program.
 *
 * config/README.md explains for users which files are read, in which order, and the format.  The
 * last [app] block that matches the program wins; MVLD_TUNABLES overrides it.
 */
#ifndef LOADER_CONFIG_H
#define LOADER_CONFIG_H

#include "loader/config/ini.h"
#include "loader/config/query.h"
#include "rimf/base/alloc.h"
#include "loader/config/why.h"

#define CONFIG_TUNABLES "MVLD_TUNABLES" /* the `file` of its settings */

struct config_entry {
    struct config_entry *next;
    const char *section; /* "app" or the name of a pass */
    const char *key;
    struct ini_slice raw; /* as written: lists are split from it */
    const char *text;     /* as one value; NULL when it is a list with quotes */
    const char *file;
    unsigned line; /* 0: MVLD_TUNABLES has no lines */
    uint32_t hash;
};

struct config {
    const char *file; /* of the [app] that won; CONFIG_TUNABLES if none did */
    unsigned line;
    const char *match; /* the value that matched, as written; NULL if none did */
    struct config_entry *entries, **tail;
    size_t n_entries;
};

/* The environment variables that we read; all NULL under AT_SECURE. */
struct config_environment {
    const char *home, *xdg_config_home, *config, *tunables, *pass_path;
};

void config_environment(const struct pipeline_query *, struct config_environment *out);
/* Writes the user's folder of configuration and `more`.  Returns the length; 0: there is none, or
 * it does not fit. */
size_t config_user_folder(char *to, size_t size, const struct config_environment *,
                          const char *more);

/* Returns 1: `out` configures the program.  0: nothing is configured.  Else negative errno and the sentence. */
int config_read(const struct pipeline_query *, const struct config_environment *, struct rimf_heap *,
                struct config *out, const struct why *);

/* The value of section.key, or NULL. */
const struct config_entry *config_find(const struct config *, const char *section,
                                       const char *key);

#define CONFIG_MADE "config.cache"  /* in a folder of configuration: the output of `mvld config` */
#define CONFIG_LIST "@/" /* begins its first line */
#define CONFIG_MARK "@ " /* begins a line with the name of a file, whose text follows */
#define CONFIG_BUILD_ID "build-id:"
#define CONFIG_FILE_MAX (1024 * 1024UL)

/* ---- between the files of the reader -------------------------------------- */

/* One configuration file in memory. */
struct config_text {
    const char *file;
    const char *text;
    size_t length;
};

/* config/block.c: checks the whole text; the last matching [app] in it becomes the configuration. */
int config_scan(const struct pipeline_query *, struct rimf_heap *, const struct config_text *, struct config *,
                const struct why *);
/* config/made.c: returns 0 if the text, given its beginning, names no program that this one could
 * be. */
int config_made_concerns(const struct pipeline_query *, const char *text, size_t length);
/* As config_scan, for the output of `mvld config`. */
int config_scan_made(const struct pipeline_query *, struct rimf_heap *, const struct config_text *, struct config *,
                     const struct why *);
int config_no_memory(const struct why *);
/* Checks a key of [app] besides match; `value` may be a list. */
int config_check_app(struct ini_slice key, struct ini_slice value, const char *file, unsigned line,
                     const struct why *);

/* config/tunables.c */
int config_tunables(struct rimf_heap *, const char *tunables, struct config *, const struct why *);

/* config/entry.c: adds the entries of a block, whose file and line the configuration has. */
int config_load(struct rimf_heap *, const char *text, size_t length, struct config *, const struct why *);
/* Adds section.key.  If it exists, `replace` says whether it gets the new value, or is refused. */
int config_put(struct rimf_heap *, struct config *, const struct config_entry *, int replace, const struct why *);

/* config/files.c: calls config_scan for each configuration file, in order. */
int config_each_file(const struct pipeline_query *, const struct config_environment *,
                     struct rimf_heap *, struct config *, const struct why *);

#endif
