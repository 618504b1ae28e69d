/* SPDX-License-Identifier: MIT
 *
 * changes.h: the record of what mvld changed on this machine, so that it can always be taken back.
 *
 * The record is a text file, `changes`, in /var/lib/mvld for root, else in $XDG_STATE_HOME/mvld or
 * ~/.local/state/mvld; $MVLD_STATE names another folder.  A row is a line of fields that tabs separate:
 *
 *     interp   PATH  LOADER  BEFORE     set-interp made PATH start under LOADER instead of BEFORE
 *     file     PATH  SUM     PROGRAM    enable made the file PATH, with this sum, for PROGRAM
 *     wrapper  PATH  SUM     PROGRAM    the same, of the script that starts PROGRAM
 *     unit     PATH  SUM     PROGRAM    the same, of a drop-in for the unit that starts PROGRAM
 *
 * A row is on the disk before its change is made, and is removed after the change was taken back.  So a
 * row may describe a change that is no longer there (a package replaced the file), but every change that is
 * there has its row.  Beside PATH may lie what a killed tool left there (asides_remove); it goes with the change.
 */
#ifndef CHANGES_H
#define CHANGES_H

#include <stddef.h>

enum {
    CHANGE_KIND,
    CHANGE_PATH,
    CHANGE_LOADER,
    CHANGE_SUM = CHANGE_LOADER,
    CHANGE_BEFORE,
    CHANGE_FOR = CHANGE_BEFORE,
    CHANGE_FIELDS
};

struct change {
    const char *field[CHANGE_FIELDS];
};

struct changes {
    char *text; /* what the rows point into */
    struct change *row;
    size_t n;
};

/* The record's path, below `root` ("" or a mounted machine's root folder); or NULL: this user has no
 * folder for it. */
char *changes_path(const char *root);

/* Reads the record; one that does not exist has no rows.  NULL, or what is wrong with it. */
const char *changes_read(const char *path, struct changes *);
void changes_free(struct changes *);

/* The program that a change was made for. */
const char *change_program(const struct change *);
/* The next row of this program's behind `last`, the first one behind NULL; or NULL. */
const struct change *changes_next(const struct changes *, const struct change *last, const char *program);
/* Whether this user's record has a row of this program's. */
int changes_have(const char *program);

/* The lock of the record of that path (NULL: there is none, which is an error), of a tool that changes or takes
 * back; closing the descriptor gives it up.  Who has to wait says so as `subcommand`.  With `make` the record's
 * folder comes to be.  -1 without *why: there is no record. */
int changes_lock(const char *path, const char *subcommand, int make, const char **why);

/* With the lock: adds a row in the place of one of this kind and path; removes all rows of this kind and path.
 * Both return when the result is on the disk.  NULL, or what went wrong: the record is as it was. */
const char *changes_add(const char *path, const struct change *);
const char *changes_remove(const char *path, const struct change *);

/* With the lock: the record goes, and its folder, when nothing else is in it. */
void changes_end(const char *path);

/* With the lock; undo.c: takes one change back, on the machine whose root folder is `root`, and removes its row from the record
 * when the change is no longer there.  NULL: the file is what it was, or was changed by others before.  Else a
 * sentence: what went wrong, or in what the file differs from before. */
const char *change_undo(const char *record, const char *root, const struct change *);

/* undo.c: 1 when the file still has the change, or the row is of an unknown kind. */
int change_stands(const char *root, const struct change *);

#endif
