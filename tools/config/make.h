/* SPDX-License-Identifier: MIT
 *
 * config/make.h: compiles the files that people write into the one that programs read when they
 * start (loader/config/files.c has its form).
 */
#ifndef CONFIG_MAKE_H
#define CONFIG_MAKE_H

#include <stddef.h>

struct config_source {
    char *path;
    char *text; /* preceded by the line that names it, as in the output */
    size_t length;
};

struct config_made {
    char *folder; /* NULL: none (no HOME) */
    char *path;   /* of the output */
    struct config_source *sources; /* in order */
    size_t n;
    size_t blocks; /* number of [app] in all of them: with 0, there is no output */
    char *list;    /* the first line of the output */
    char **programs; /* the absolute paths in `match` of all [app] */
    size_t n_programs;
    char why[512]; /* the error, with file and line; or "" */
    int hidden; /* the error is that this user may not read them */
    const char *passes; /* of config_make */
};

/* Reads and checks the files of the system, or those of this user.  `passes`: folders (path_passes) with passes,
 * against which options are checked, too; or NULL.  0; or -1 and `why`. */
int config_make(struct config_made *, int users, const char *passes);
void config_made_free(struct config_made *);
/* The output: the files, one after the other. */
char *config_made_text(const struct config_made *, size_t *length);
/* Returns a sentence if config.cache is not up to date, or NULL; freed by the caller. */
char *config_made_differs(const struct config_made *);

/* Prints that sentence on standard error, for both folders. */
void config_remind(const char *subcommand);

#endif
