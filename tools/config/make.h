/* SPDX-License-Identifier: MIT
 *
 * config/make.h: the one file that starts of programs read, made of the files that people
 * write (loader/config/files.c has its form).
 */
#ifndef CONFIG_MAKE_H
#define CONFIG_MAKE_H

#include <stddef.h>

struct config_source {
    char *path;
    char *text; /* with the line before it that names it, as it goes into the made file */
    size_t length;
};

struct config_made {
    char *folder; /* NULL: there is none (no HOME) */
    char *path;   /* of what is made */
    struct config_source *sources; /* in their order */
    size_t n;
    size_t blocks; /* [app] in all of them: with none, no file is made */
    char *list;    /* the first line of what is made */
    char why[512]; /* what is wrong with them, with file and line; or "" */
    int hidden; /* that is that this user may not read them */
};

/* Reads and checks the files of the system, or those of the user who asks.  0; or -1 and `why`. */
int config_make(struct config_made *, int users);
void config_made_free(struct config_made *);
/* The files, one behind the other. */
char *config_made_text(const struct config_made *, size_t *length);
/* A sentence when starts do not read what the files say now, or NULL; freed by the caller. */
char *config_made_differs(const struct config_made *);

/* Says so on standard error, of both places. */
void config_remind(const char *subcommand);

#endif
