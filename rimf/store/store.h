/* SPDX-License-Identifier: MIT
 *
 * rimf/store/store.h: the loader's functions for manifests (manifest.h) and an image.
 */
#ifndef RIMF_STORE_STORE_H
#define RIMF_STORE_STORE_H

#include "rimf/store/manifest.h"

/* ---- over an image (apply_start.c, write_start.c) --------------------------------- */

/* Maps the texts over those of the image's objects.  Returns the number of texts, or negative errno with a
 * static sentence in *why and `object` (the one that differs, or NULL); -ESTALE: the manifest is of other
 * files or distances. */
long rimf_manifest_apply(struct mvld_image *, const struct manifest_file *, uint64_t made_by,
                         const char **why, const struct mvld_object **object);

/* A manifest's facts about a start besides its objects, from before passes ran; the strings remain valid. */
struct rimf_start {
    uint64_t made_by, layout_seed;
    const char *launch_key; /* or NULL */
    size_t n_makers, n_reads; /* with more reads than fit, no manifest is written */
    struct rimf_maker { /* the passes, in order; if there are more, none is listed */
        const char *name, *path, *library; /* NULL: none */
        uint32_t flags;                    /* MVLD_PASS_*, MANIFEST_IDLE */
        struct file_id file;
    } makers[MANIFEST_PASSES_MAX];
    struct rimf_read { /* files that they will read */
        const char *path;
        struct file_id file; /* manifest_read_of */
    } reads[MANIFEST_READS_MAX];
};

/* Writes the recorded work to `folder`, which must not exist; it is complete when it contains MANIFEST_FILE.
 * 0, or negative errno with a sentence (last_error); then the contents of the folder are to be removed. */
int rimf_manifest_write(struct mvld_image *, const char *folder, const struct rimf_start *);

/* ---- what comes by dlopen (apply_later.c, write_later.c) ---------------------------- */

/* Returns 1 if the manifest continues the one with which the image started, else 0. */
int rimf_later_fits(const struct mvld_image *, const struct manifest *);
/* The address at which to map the object with that number. */
uintptr_t rimf_later_place(const struct mvld_image *, const struct manifest *, uint32_t number);
/* For objects of one dlopen, none of whose code has run.  Listed objects at their recorded distances get
 * their texts, dependencies (which come last) first.  The others, whose code is the file's, are stored in
 * `rest`, in order; returns their number. */
size_t rimf_later_apply(struct mvld_image *, const struct manifest_file *,
                        const struct mvld_object *const *, size_t n, const struct mvld_object **rest);
/* Adds the passes' changes of these objects, recorded by the image, to MANIFEST_LATER in the open folder.
 * The caller holds the lock of the cache, or gives in `refusal` why nothing can be added.  Returns the number
 * of added objects, or negative errno with a sentence (last_error). */
long rimf_later_write(struct mvld_image *, int folder, uint32_t user, const struct mvld_object *const *, size_t n,
                      const char *refusal);

#endif
