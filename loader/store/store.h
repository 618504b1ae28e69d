/* SPDX-License-Identifier: MIT
 *
 * loader/store/store.h: snapshots, read and written by starts.
 */
#ifndef LOADER_STORE_H
#define LOADER_STORE_H

#include "rimf/store/store.h"

struct loader;

/* ---- store.c ----------------------------------------------------------------------------- */

struct found_snapshot {
    char *folder; /* NULL: none found */
    struct manifest_file file;
    const char *launch_key; /* store/folder.h */
    uint64_t pipeline;
    uintptr_t *biases; /* of its objects, if they are mapped */
    int is_users;    /* or root has none */
    size_t awaited;  /* number of mapped files when the host loader relocates; 0: irrelevant */
    int relocated;   /* relocation tables were replaced */
    int left;        /* and words were relocated to moved code, but the snapshot did not fit */
    int there;       /* there is one for such starts, valid or not */
    int unasked;     /* there is none, and on-miss must not make one (store/folder.c) */
};

void store_find(struct loader *); /* called before the host loader runs */
void store_run(struct loader *);
/* If a mapped snapshot is not applied: changes words back to original code, or ends the program. */
void store_forget(struct loader *);
void store_or_exit(struct loader *);

/* ---- layout.c ---------------------------------------------------------------------------- */

/* Called once this process's snapshot is known, and before anything is mapped. */
void layout_choose(struct loader *);

/* ---- relocations.c ----------------------------------------------------------------------- */

void relocations_expect(struct loader *);
void relocations_replace(struct loader *);
/* Maps the files' texts again over the snapshot's; 0, or negative errno: failed for some. */
int relocations_take_texts_back(struct loader *);

/* ---- later.c ----------------------------------------------------------------------------- */

struct later_objects {
    const char *folder; /* of this process's snapshot; or NULL */
    uint32_t user;      /* files of this user, besides root's */
    size_t passes;      /* number of passes whose work it holds */
    int looked;         /* the list was looked for; `file` has it, if there is one */
    struct manifest_file file;
    long learner;       /* this process adds to the list; 0: it does not */
};

void later_start(struct loader *, const char *folder, uint32_t user, size_t passes, int learns);
uintptr_t later_place(struct loader *, int fd, size_t length);
void later_added(struct loader *, const struct mvld_object *const *objects, size_t n,
                 int unentered);

/* ---- analysis.c -------------------------------------------------------------------------- */

void analysis_start(struct loader *);

#endif
