/* SPDX-License-Identifier: MIT
 *
 * loader/store/store.h: what earlier processes left for this one, and what it leaves.
 */
#ifndef LOADER_STORE_H
#define LOADER_STORE_H

#include "rimf/store/store.h"

struct loader;

/* ---- store.c ----------------------------------------------------------------------------- */

struct found_snapshot {
    char *folder; /* NULL: none was found */
    struct manifest_file file;
    const char *launch_key; /* store/folder.h */
    uint64_t pipeline;
    uintptr_t *biases; /* of its objects, when they were found mapped */
    int is_users;    /* or there is none of root's */
    size_t awaited;  /* so many files are mapped when the host loader relocates; 0: no matter */
    int relocated;   /* tables of relocations were replaced */
    int left;        /* and led words to moved code, but the snapshot did not fit */
    int there;       /* there is one for such starts, as good or bad as it is */
    int unasked;     /* there is none, and on-miss is to make none (store/folder.c) */
};

void store_find(struct loader *); /* before the host loader runs */
void store_run(struct loader *);
/* What was laid over, if nothing came of it: words lead to originals again, or the program ends. */
void store_forget(struct loader *);
void store_or_exit(struct loader *);

/* ---- layout.c ---------------------------------------------------------------------------- */

/* Once it is known with which snapshot this process starts, and before anything is mapped. */
void layout_choose(struct loader *);

/* ---- relocations.c ----------------------------------------------------------------------- */

void relocations_expect(struct loader *);
void relocations_replace(struct loader *);
/* Texts of the snapshot that lie over those of files are these again; 0, or negative errno: some are not. */
int relocations_take_texts_back(struct loader *);

/* ---- later.c ----------------------------------------------------------------------------- */

struct later_objects {
    const char *folder; /* of the snapshot with which the program started; or NULL */
    uint32_t user;      /* besides root's, files of this user */
    size_t passes;      /* so many did what it holds */
    int looked;         /* for the list; `file` has it, if there is one */
    struct manifest_file file;
    long learner;       /* this process adds to the list; 0: nobody */
};

void later_start(struct loader *, const char *folder, uint32_t user, size_t passes, int learns);
uintptr_t later_place(struct loader *, int fd, size_t length);
void later_added(struct loader *, const struct mvld_object *const *objects, size_t n,
                 int unentered);

/* ---- analysis.c -------------------------------------------------------------------------- */

void analysis_start(struct loader *);

#endif
