/* SPDX-License-Identifier: MIT
 *
 * enable.h: what `mvld enable`, `disable` and `status` share, and `mvld doctor` asks.
 */
#ifndef ENABLE_H
#define ENABLE_H

#include "tools/changes/changes.h"
#include "tools/common/tools.h"

#include <sys/types.h>

/* ---- ways.c: in which ways a program is started under mvld from now on ----------------------- */

struct target {
    char *program; /* the program's file, no link */
    char *called;  /* the path by which it was found */
    const char *unit; /* of --unit, or NULL */
};

/* A way makes one change, which has a row in the record.  To take it back is the record's matter. */
struct way {
    const char *name; /* as --by has it */
    const char *kind; /* of its row */
    /* Of which file it makes or changes, to be freed; NULL and *why: the program cannot be started so. */
    char *(*place)(const struct target *, const char **why);
    /* What the file holds that is made, to be freed, and its mode; NULL: the program's own file is changed. */
    char *(*text)(const struct target *);
    unsigned mode;
    /* NULL, or: this process becomes one in which programs start as they do by this way.  0, or -1 with errno. */
    int (*enter)(void);
};

extern const struct way ways[]; /* the preferred first; a name of NULL ends them */

/* The way of which this is the row; NULL: it is of another file that was made. */
const struct way *way_of(const struct change *);

/* With the lock: makes the change at `place`.  0, or -1: said. */
int way_arrange(const struct way *, const struct target *, const char *place, int force);

/* Why the program does not start under mvld by this change, and the command that mends it, both to be freed; or
 * NULL.  Nothing is started. */
char *way_trouble(const struct change *, char **remedy);

/* ---- unit.c --------------------------------------------------------------------------------- */

char *unit_place(const struct target *, const char **why);
char *unit_text(const struct target *);
int unit_enter(void);
/* The unit of which this is the drop-in, to be freed. */
char *unit_of(const char *place);
/* Tells systemd, where it runs, that a drop-in came or went. */
void unit_reload(void);

/* ---- disable.c ------------------------------------------------------------------------------ */

/* The program, as the record calls it, of a name that a user gives; to be freed. */
char *enable_program(const struct changes *, const char *name);

/* ---- status.c ------------------------------------------------------------------------------- */

/* Whether the program was enabled and is there, and does not start from a snapshot that fits. */
int enable_is_stale(const char *program);

/* ---- steps.c -------------------------------------------------------------------------------- */

/* With the lock: `path` holds this text from now on, and the record says for which program; where another text of
 * ours is there, it goes.  NULL, or what went wrong. */
const char *enable_make_file(const char *kind, const char *path, const char *program, const char *text, unsigned mode);

/* Runs another subcommand of mvld, as programs start by `way`, or as usual with NULL; what steers mvld and the host
 * loader is taken out of its environment.  *said: what it says, to be freed; with NULL only its standard error is, to
 * the user.  Returns its exit code. */
int enable_run(const struct way *, const char *const *words, char **said);

/* The folder of the configuration that this user writes, to be freed; or NULL: there is none. */
char *enable_config_folder(void);
/* Runs `mvld config`, which makes config.cache.  Returns its exit code. */
int enable_make_config(void);

/* ---- process.c */
/* `mvld status -p': on standard output, or with JSON. */
int status_of_process(pid_t, struct json *);

#endif
