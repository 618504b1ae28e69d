/* SPDX-License-Identifier: MIT
 *
 * rimf/store/later_private.h: objects of dlopen on their way into a process, or into files; for
 * image_later*.c and image_learn*.c.
 */
#ifndef RIMF_LATER_PRIVATE_H
#define RIMF_LATER_PRIVATE_H

#include "rimf/image/private.h"
#include "rimf/store/later.h"

struct moved_fragment;

/* 1: copies of its code are in the image. */
int later_has_copy(const struct later_object *);

/* ---- store/thaw_later.c ----------------------------------------------------------------- */

uintptr_t rimf_later_bias(const struct mvld_image *, const struct later_object *);

/* ---- store/thaw_later_copies.c ---------------------------------------------------------- */

/* A file of the folder, when it is the one that was written.  Descriptor, or negative errno
 * with a sentence (static) in *why. */
long later_open_file(struct mvld_image *, int folder, uint32_t user, const char *name,
                     const struct file_id *written, const char **why);
/* Its place in the list of copies, or NULL: it was not joined. */
struct moved_fragment *later_copy_of(const struct mvld_image *, const struct later_object *);
/* The copy is there, and has a home.  0, or negative errno with a sentence (static) in *why, and
 * it is not. */
int later_map_copy(struct mvld_image *, const struct later *, const struct later_object *,
                   int folder, uint32_t user, struct rimf_object *, const char **why);
/* Nothing was led to it. */
void later_unmap_copy(struct mvld_image *, const struct later_object *, struct rimf_object *);

/* ---- store/learn.c ------------------------------------------------------------------ */

struct learn {
    struct mvld_image *image;
    int folder;
    uint32_t user;
    struct later_file old;
    const struct later *known; /* old.view, or one without objects */
    const struct mvld_object *const *came;
    struct rimf_object **learnt; /* of these */
    size_t n_came, n;
    uint8_t *bytes; /* of the new file */
    struct later_header *header;
    struct later_object *objects;
    struct frozen_text *texts;
    struct frozen_word *words;
    struct analysis_home *homes;
    char *names;
};

uint32_t learn_name(struct learn *, const char *name);

/* ---- store/learn_copies.c ------------------------------------------------------------ */

/* Why no process can add the copy of the object's code, or NULL. */
const char *learn_copy_unfit(const struct learn *, const struct rimf_object *);
/* This one cannot: in the region, pages of known copies are those of this one. */
int learn_copy_overlaps(const struct learn *, const struct rimf_object *);
/* Writes its file.  0, or negative errno. */
int learn_copy(struct learn *, struct later_object *, const struct rimf_object *);
/* Writes the table of all copies, if there is one more.  0, or negative errno. */
int learn_table(struct learn *);

#endif
