/* SPDX-License-Identifier: MIT
 *
 * rimf/store/store.h: what the loader does with manifests (manifest.h) and an image.
 */
#ifndef RIMF_STORE_STORE_H
#define RIMF_STORE_STORE_H

#include "rimf/store/manifest.h"

/* ---- over an image (apply_start.c, write_start.c) --------------------------------- */

/* Lays the texts over those of the image's objects.  The number of texts, or negative
 * errno with a sentence in *why (static) and `object` (the one that is different, or
 * NULL); -ESTALE: it is of other files or places. */
long rimf_manifest_apply(struct mvld_image *, const struct manifest_file *, uint64_t made_by,
                         const char **why, const struct mvld_object **object);

/* Writes what was noted to `folder`, which must not be there yet; it is complete when MANIFEST_FILE is in it.
 * 0, or negative errno with a sentence that can be asked for (last_error), and what is in the folder is to be
 * removed. */
int rimf_manifest_write(struct mvld_image *, const char *folder, uint64_t made_by, uint64_t layout_seed,
                        const char *launch_key);

/* ---- what comes by dlopen (apply_later.c, write_later.c) ---------------------------- */

/* The manifest continues the one with which the image started: 1, else 0. */
int rimf_later_fits(const struct mvld_image *, const struct manifest *);
/* Where the object with that number should be mapped. */
uintptr_t rimf_later_place(const struct mvld_image *, const struct manifest *, uint32_t number);
/* These came by one dlopen, and none of their code has run.  Those that are listed and lie where they should
 * get their texts, those that others depend on, which stand behind them, first.  The rest, whose code is as
 * in their files, goes to `rest`, in that order; how many these are. */
size_t rimf_later_apply(struct mvld_image *, const struct manifest_file *,
                        const struct mvld_object *const *, size_t n, const struct mvld_object **rest);
/* Adds what passes did to these, while the image watched, to MANIFEST_LATER in the open folder.  Who asks
 * holds the lock of the cache, or says in `refusal` why nothing can be added.  How many objects were added,
 * or negative errno with a sentence (last_error). */
long rimf_later_write(struct mvld_image *, int folder, uint32_t user, const struct mvld_object *const *, size_t n,
                      const char *refusal);

#endif
