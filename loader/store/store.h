/* SPDX-License-Identifier: MIT
 *
 * loader/store/store.h: what earlier processes left for this one, and what it leaves.
 */
#ifndef LOADER_STORE_H
#define LOADER_STORE_H

#include "rimf/store/store.h"

struct loader;

/* ---- store.c ----------------------------------------------------------------------------- */

enum found_state {
    FOUND_NONE,
    FOUND_UNASKED,   /* none, and on-miss is to make none (store/folder.c) */
    FOUND_UNFIT,     /* one for such starts, which cannot be used */
    FOUND_MAPPED,    /* one that may fit */
    FOUND_RELOCATED, /* its objects lie where they lay, and its tables of relocations are in force */
    FOUND_APPLIED,
    FOUND_LEFT       /* its tables led words to moved code, and it did not fit: there is none to pass behind */
};

struct found_snapshot {
    enum found_state state;
    char *folder; /* while it is mapped or relocated; else NULL */
    struct manifest_file file;
    const char *launch_key; /* store/folder.h */
    uint64_t pipeline;
    uintptr_t *biases; /* of its objects, when they were found mapped */
    int is_users;    /* or there is none of root's */
    size_t awaited;  /* so many files are mapped when the host loader relocates; 0: no matter */
    struct store_plan *plan; /* while passes run whose work is to be kept */
};

void store_find(struct loader *); /* before the host loader runs */
/* All objects are relocated.  The snapshot is applied, and so many passes have run; or so many are to, and what they
 * did is to be kept; 0: it is not. */
size_t store_begin(struct loader *);
/* They have, and what they want is emitted; or one of them failed.  Who asked for nothing else ends here. */
void store_keep(struct loader *, int failed);
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

/* Objects of one dlopen, between these two. */
struct later_coming {
    const struct mvld_object *const *rest; /* those whose code is as in their files: passes run for them */
    size_t n_rest;
    int learns; /* what passes make of them is kept */
    const struct mvld_object **own; /* memory of `rest`, or NULL */
    int folder; /* -1: none */
    long lock;
    const char *refusal;
};
/* These objects came; `unentered`: no code of them has run. */
void later_begin(struct loader *, struct later_coming *, const struct mvld_object *const *objects, size_t n,
                 int unentered);
/* The first `later.passes` have run for the rest; with `learns` what they want is emitted. */
void later_end(struct loader *, struct later_coming *);

/* ---- analysis.c -------------------------------------------------------------------------- */

void analysis_start(struct loader *);

#endif
