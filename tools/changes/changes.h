/* SPDX-License-Identifier: MIT
 *
 * changes.h: the record of mvld's changes of this machine, so that they can always be reverted.
 *
 * The record is a text file, `changes`, in /var/lib/mvld for root, else in $XDG_STATE_HOME/mvld or
 * ~/.local/state/mvld; $MVLD_STATE names another folder.  A row is a line of fields that tabs separate:
 *
 *     interp   PATH  LOADER  BEFORE     set-interp made PATH start under LOADER instead of BEFORE
 *     file     PATH  SUM     PROGRAM    enable made the file PATH, with this sum, for PROGRAM
 *     wrapper  PATH  SUM     PROGRAM    the same, of the wrapper that starts PROGRAM
 *     unit     PATH  SUM     PROGRAM    the same, of a drop-in for the unit that starts PROGRAM
 *     folder   PATH  -       -          mvld made the folder PATH for one of these files, or for its own
 *
 * A row is on the disk before its change is made, and is removed after the change was reverted.  So
 * a row may describe a change that does not exist any more (a package replaced the file), but every
 * existing change has its row.  Files that a killed tool left beside PATH (asides_remove) are
 * removed with the change.
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
    char *text; /* the rows point into it */
    struct change *row; /* of programs */
    size_t n;
    struct change *folder; /* those above others first */
    size_t n_folders;
};

/* The record's path; or NULL: this user has no folder for it. */
char *changes_path(void);
/* For other users than root, whose record it is: the machine's record, whose changes are theirs, too.  Else NULL. */
char *changes_path_of_machine(void);

/* Reads the record; one that does not exist has no rows.  NULL, or the error. */
const char *changes_read(const char *path, struct changes *);
void changes_free(struct changes *);

/* The program that a change was made for. */
const char *change_program(const struct change *);
/* The next row of this program after `last`, or the first one for NULL; or NULL. */
const struct change *changes_next(const struct changes *, const struct change *last, const char *program);
/* Whether this user's record has a row of this program. */
int changes_have(const char *program);

/* Takes the lock of the record at that path (NULL: there is none, which is an error), for a tool
 * that makes or reverts changes; closing the descriptor releases it.  If it must wait, it prints
 * this as `subcommand`.  With `make` it creates the record's folder.  -1 without *why: there is no
 * record. */
int changes_lock(const char *path, const char *subcommand, int make, const char **why);

/* With the lock held: adds a row, replacing one of this kind and path; removes all rows of this
 * kind and path.  Both return when the result is on the disk.  NULL, or the error: the record is
 * unchanged. */
const char *changes_add(const char *path, const struct change *);
const char *changes_remove(const char *path, const struct change *);

/* With the lock held: makes the folder and those above it that are missing, each with a row.  NULL, or the error. */
const char *changes_make_folders(const char *path, const char *folder);
/* With the lock held: folders of these rows that are empty go, and their rows. */
void changes_remove_folders(const char *path);

/* With the lock: the record goes, and its folder, when nothing else is in it; likewise all folders that it lists. */
void changes_end(const char *path);

/* With the lock; undo.c: takes one change back, and removes its row from the record when the change is no longer
 * there.  NULL: the file is what it was, or was changed by others before.  Else a sentence: what went wrong, or in
 * what the file differs from before. */
const char *change_undo(const char *record, const struct change *);

/* undo.c: returns 1 if the file still has the change, or the row is of an unknown kind. */
int change_stands(const struct change *);

#endif
