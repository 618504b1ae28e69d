/* SPDX-License-Identifier: MIT
 *
 * rimf/store/later_private.h: objects of dlopen on their way into a process, or into files; for
 * image_later*.c and image_learn*.c.
 */
#ifndef RIMF_LATER_PRIVATE_H
#define RIMF_LATER_PRIVATE_H

#include "image_private.h"
#include "store/later.h"

/* ---- store/apply_later.c ----------------------------------------------------------------- */

uintptr_t rimf_later_bias(const struct mvld_image *, const struct later_object *);

/* ---- store/write_later.c ------------------------------------------------------------------ */

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
    struct manifest_text *texts;
    struct manifest_word *words;
    char *names;
};

#endif
