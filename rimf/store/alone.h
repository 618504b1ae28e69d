/* SPDX-License-Identifier: MIT
 *
 * rimf/store/alone.h: overlays that need no manifest of the program (manifest.h, ALONE): which one is an object's.
 */
#ifndef RIMF_STORE_ALONE_H
#define RIMF_STORE_ALONE_H

#include "rimf/emit/calls.h"
#include "rimf/store/manifest.h"

enum alone_reach {
    ALONE_OWN, /* calls that stay in the object */
    ALONE_ALL, /* those to other objects, too */
    ALONE_REACHES
};
#define ALONE_UNFIT (MVLD_OBJECT_VDSO | MVLD_OBJECT_LOADER | MVLD_OBJECT_UNPLACED) /* no call leads there */

/* How far behind the object's bias the address is in starts in which no distances are drawn: such have no
 * manifest, and are those that such overlays are for.  And the other object's bias. */
static inline int64_t rimf_alone_distance(const struct mvld_image *image,
                                          const struct rimf_object *object, uintptr_t address)
{
    const struct mvld_object *holder = image->layout_seed ? rimf_object_find(image, address) : NULL;
    uintptr_t closer = holder ? rimf_object_of(holder)->layout_shift - object->layout_shift : 0;

    return (int64_t)(address - object->view.bias + closer);
}

static inline int64_t alone_distance(const struct mvld_image *image, const struct rimf_object *object,
                                     const struct mvld_object *to)
{
    return rimf_alone_distance(image, object, to->start) - (int64_t)(to->start - to->bias);
}

/* For overlay_path: of its slots, or of the program. */
#define ALONE_NO_KEY (~0ul) /* there is none */
uint64_t rimf_alone_key(const struct mvld_image *, const struct rimf_object *, enum alone_reach);
/* The executable, when its file is known, or NULL. */
const struct rimf_object *rimf_alone_program(const struct mvld_image *);
/* The object's calls, as far as they are not direct in an overlay that was laid over the object by
 * now; the others are counted then.  Or NULL, with a sentence in *why: it has no analysis. */
const struct analysis_call *rimf_alone_calls(struct mvld_image *, struct rimf_object *,
                                            size_t *n, const char **why);
/* Is there one of the object that agrees with its edit, made with the same analysis? */
int rimf_alone_exists(struct mvld_image *, struct rimf_object *, uint64_t key);


/* write_alone.c: writes what overlays alone there are not yet, of these calls; it says so, or why not. */
void rimf_alone_write(struct mvld_image *, struct emit_calls *);

#endif
