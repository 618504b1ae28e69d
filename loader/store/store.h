/* SPDX-License-Identifier: MIT
 *
 * loader/store/store.h: snapshots, read and written by starts.
 */
#ifndef LOADER_STORE_H
#define LOADER_STORE_H

#include "rimf/store/store.h"

struct loader;

/* ---- store.c, make.c --------------------------------------------------------------------- */

enum found_state {
    FOUND_NONE,
    FOUND_UNASKED,   /* none, and on-miss must not make one (store/folder.c) */
    FOUND_UNFIT,     /* one for such starts, which cannot be used */
    FOUND_MAPPED,    /* one that may fit */
    FOUND_RELOCATED, /* its objects have the recorded distances, and its relocation tables are in use */
    FOUND_APPLIED,
    FOUND_LEFT       /* its tables made words point to moved code, and it did not fit: no other pass may run */
};

struct found_snapshot {
    enum found_state state;
    char *folder; /* while mapped or relocated; else NULL */
    struct manifest_file file;
    const char *launch_key; /* store/private.h */
    uint64_t pipeline;
    uintptr_t *biases; /* of its objects, if they are mapped */
    int is_users;    /* or root has none */
    size_t awaited;  /* number of mapped files when the host loader relocates; 0: irrelevant */
    struct store_plan *plan; /* while passes run whose work will be written */
};

void store_find(struct loader *); /* called before the host loader runs */
/* Maps passes that were not mapped yet; if one is refused, there is none. */
void store_complete(struct loader *);
/* Called when all objects are relocated.  Applies the snapshot, and returns the number of passes whose work
 * it holds; or of those that are to run and be written; 0: none is written. */
size_t store_begin(struct loader *);
/* Called when these have run and their edits are made; or one of them failed.  If nothing else was requested,
 * ends the process. */
void store_keep(struct loader *, int failed);
/* If a mapped snapshot is not applied: changes words back to original code, or ends the program. */
void store_forget(struct loader *);
void store_or_exit(struct loader *);
/* The prefix of the line that says why no snapshot was written, and a reason that is no fault. */
#define STORE_REFUSAL "mvld: no snapshot: "
#define STORE_NOTHING "none can hold the work of these passes"

/* ---- folder.c ---------------------------------------------------------------------------- */

/* Called once this process's snapshot is known, and before anything is mapped. */
void layout_choose(struct loader *);
/* Gives the image the folders of analyses. */
void analysis_start(struct loader *);

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

/* State for the objects of one dlopen, between later_begin and later_end. */
struct later_coming {
    const struct mvld_object *const *rest; /* those whose code is the file's: passes run for them */
    size_t n_rest;
    int learns; /* the passes' work on them will be written */
    const struct mvld_object **own; /* memory of `rest`, or NULL */
    int folder; /* -1: none */
    long lock;
    const char *refusal;
};
/* Called when these objects were added; `unentered`: none of their code has run. */
void later_begin(struct loader *, struct later_coming *, const struct mvld_object *const *objects, size_t n,
                 int unentered);
/* Called when the first `later.passes` have run for the rest; with `learns` their edits are made. */
void later_end(struct loader *, struct later_coming *);

#endif
