/* SPDX-License-Identifier: MIT
 *
 * rimf/image.h: the image (RiMF), the one description of all objects in the
 * process.
 *
 * The loader (or libmultiverse under a plain ld.so) feeds it with sources; it
 * reads program headers, notes and symbol tables from memory, checks every
 * bound, and answers passes through `struct mvld_api`.  An object whose headers
 * cannot be read safely is kept as opaque, with the reason.
 */
#ifndef RIMF_IMAGE_H
#define RIMF_IMAGE_H

#include "mvld/pass.h"

struct rimf_sys;
struct rimf_log;

/* What the feeder knows of one object.  `phdr` may be NULL: then the ELF header
 * is looked for at `bias`, if that page is mapped.  Strings are copied. */
struct rimf_source {
    const char *name;
    uintptr_t bias;
    const void *dynamic;
    const void *phdr;
    size_t phnum;
    uint32_t flags; /* MVLD_OBJECT_* */
    void *link_map;
};

/* The image lives in its own pages; `log` must outlive it.  0, -ENOMEM. */
int rimf_image_create(const struct rimf_sys *, const struct rimf_log *, struct mvld_image **out);
void rimf_image_destroy(struct mvld_image *);

/* Makes the image's objects those of `sources`, in that order.  Objects are the
 * same when link_map, bias and dynamic are the same.  The batch of new ones and
 * of gone ones is returned in arrays that stay valid until the next call; a
 * gone object's description (not its memory) stays readable until then.
 * 0, -ENOMEM (nothing changed). */
struct rimf_change {
    const struct mvld_object *const *added;
    size_t n_added;
    const struct mvld_object *const *removed;
    size_t n_removed;
};
int rimf_image_update(struct mvld_image *, const struct rimf_source *sources, size_t n,
                      struct rimf_change *out);

/* The functions that passes are given. */
const struct mvld_api *rimf_api(void);

/* Walks the image; the first broken invariant becomes a sentence (rimf_api()->
 * last_error) and -EUCLEAN. */
int rimf_image_check(struct mvld_image *);
/* MVLD_DEBUG=image: a line a domain, object, segment. */
void rimf_image_print(const struct mvld_image *);

/* How patches are written (rimf/patch.h); by default the engine chooses. */
int rimf_image_set_patch_method(struct mvld_image *, const char *name); /* 0, -EINVAL, -EPERM */

#endif
