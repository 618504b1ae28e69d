/* SPDX-License-Identifier: MIT
 *
 * enable.h: shared by `mvld enable`, `disable`, `status` and `doctor`.
 */
#ifndef ENABLE_H
#define ENABLE_H

#include "tools/changes/changes.h"
#include "tools/common/tools.h"

#include <sys/types.h>
#include <time.h>

/* ---- ways.c: in which ways a program is started under mvld from now on ----------------------- */

struct target {
    char *program; /* the program's file, no link */
    char *called;  /* the path where it was found */
    const char *unit; /* of --unit, or NULL */
    int is_name;   /* as a shell finds it, and no path was given */
};

/* A method makes one change, with a row in the record, by which it is reverted. */
struct way {
    const char *name; /* its name for --by */
    const char *kind; /* of its row */
    /* The file that it makes or changes, to be freed; NULL and *why: impossible for this program. */
    char *(*place)(const struct target *, const char **why);
    /* The content of the made file, to be freed, and its mode; NULL: the program's own file is
     * changed. */
    char *(*text)(const struct target *, size_t *size);
    unsigned mode;
    /* NULL, or makes this process one in which programs start as by this method.  0, or -1 with
     * errno. */
    int (*enter)(void);
};

extern const struct way ways[]; /* in order of preference; a name of NULL ends them */

/* The method of this row; NULL: it is of another made file. */
const struct way *way_of(const struct change *);

/* With the lock held: makes the change at `place`.  0, or -1 after a message. */
int way_arrange(const struct way *, const struct target *, const char *place, int force);

/* Why the program does not start under mvld by this change, and the command that repairs it, both
 * to be freed; or NULL.  Starts nothing. */
char *way_trouble(const struct change *, char **remedy);

/* ---- unit.c --------------------------------------------------------------------------------- */

char *unit_place(const struct target *, const char **why);
char *unit_text(const struct target *, size_t *size);
int unit_enter(void);
/* The unit of this drop-in, to be freed. */
char *unit_of(const char *place);
/* The main process of the unit of this drop-in; 0: it does not run, or systemd does not. */
pid_t unit_process(const char *place);
/* Tells systemd, if it runs, that drop-ins have changed. */
void unit_reload(void);

/* ---- disable.c ------------------------------------------------------------------------------ */

/* The recorded program for a name that a user gives; to be freed. */
char *enable_program(const struct changes *, const char *name);

/* ---- state.c -------------------------------------------------------------------------------- */

struct program_state {
    const char *by;      /* of a program that is in no record, or NULL */
    char *why, *remedy;  /* the problem, and the command that solves it; or NULL */
    char *snapshot;      /* the folder of the one that a start applies, or NULL */
    uint64_t code, size; /* bytes of code in it, and on disk */
    pid_t process;       /* of a unit: it runs the program now; or 0 */
    pid_t other;         /* of a unit: its process, which runs another file; or 0 */
};
void state_free(struct program_state *);

/* The state of a recorded change: its program is started as by its method. */
void state_of(struct program_state *, const struct change *);
/* Adds the unit's process, if it runs. */
void state_of_unit(struct program_state *, const struct change *);
/* Starts the program as by `way`, or as usual.  Neither a snapshot nor a problem: its passes run at each start. */
void state_try(struct program_state *, const struct way *, const char *program);

/* The same as way_trouble, or why no snapshot is applied: to a start, or to the unit's process. */
char *enable_trouble(const struct change *, char **remedy);

/* Whether the program is enabled and exists, but does not start from a snapshot that fits. */
int enable_is_stale(const char *program);
/* Whether a start of this program, which is in no record, applies a snapshot that is not stale. */
int enable_has_snapshot(const char *program);

/* ---- status.c ------------------------------------------------------------------------------- */

/* Writes the objects of `mvld status --json' for this program, or one that says that it is not enabled. */
void enable_report(struct json *, const char *program);

/* ---- configured.c --------------------------------------------------------------------------- */

/* A program that this user's configuration names by path, with passes whose work a snapshot can hold, or with a pipeline
 * that is wrong. */
struct configured {
    const char *program;
    char wrong[512];      /* the error, with file and line, for which no pass runs; or "" */
    int builds;           /* on-miss = build */
    int is_plain_without; /* without a snapshot no pass runs */
    int analyses;         /* a pass needs analyses */
};

/* Visits each of them once, and adds the results to *status.  NULL, or why the configuration is wrong. */
const char *enable_each_configured(int (*visit)(void *cookie, const struct configured *), void *cookie, int *status);
/* Analyses those with on-miss = build, but for those in `rows` that are enabled, and builds their
 * snapshots, where a start applies none that fits.  Adds their number to *built.  Exit code. */
int enable_build_configured(const struct changes *rows, int *built);

/* ---- tried.c -------------------------------------------------------------------------------- */

struct timespec tried_now(void);
/* Notes whether what was begun at this time failed. */
void tried_note(const char *program, const struct timespec *when, int failed);
/* Whether it failed, and nothing on which that depends was changed since. */
int tried_in_vain(const char *program);

/* ---- steps.c -------------------------------------------------------------------------------- */

/* With the lock held: writes this text to `path`, and records it for the program; replaces another
 * text of ours.  NULL, or the error. */
const char *enable_make_file(const char *kind, const char *path, const char *program, const void *text, size_t size,
                             unsigned mode);

/* Runs another subcommand of mvld, as programs start by `way`, or as usual with NULL; variables for
 * mvld and the host loader are removed from its environment.  *said: its output, to be freed; with
 * NULL only its standard error is shown to the user.  Returns its exit code. */
int enable_run(const struct way *, const char *const *words, char **said);

/* The configuration folder of this user, to be freed; or NULL: there is none. */
char *enable_config_folder(void);
/* The program's file in its apps.d, to be freed: that of its row, else NAME.conf, or NAME-2.conf and so on, where that is
 * of another program; or NULL after a message. */
char *enable_config_file(const struct changes *rows, const char *program);
/* Runs `mvld config`, unless that would change nothing.  Returns its exit code. */
int enable_make_config(void);

/* ---- process.c ------------------------------------------------------------------------------ */

/* The folder of the snapshot whose code this process has mapped, to be freed; or NULL. */
char *snapshot_of_process(pid_t);
/* `mvld status -p': prints to standard output, or JSON. */
int status_of_process(pid_t, struct json *);

#endif
