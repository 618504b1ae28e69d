/* SPDX-License-Identifier: MIT
 *
 * rimf/store/apply.h: a frozen image on its way into a process; for image_thaw*.c.
 */
#ifndef RIMF_THAW_H
#define RIMF_THAW_H

#include "store/manifest.h"
#include "image_private.h"

struct applying {
    struct mvld_image *image;
    const struct manifest_file *file;
    const struct manifest *frozen;
    const struct rimf_table *table;
    uintptr_t base; /* bias of the first object that is not apart */
    int based;      /* it is known */
    int *files;     /* descriptors of the copies of files, by object; -1: none */
    long mapped; /* texts */
    uint32_t first_pointer; /* those before lead to copies */
    const struct manifest_copy *led_to; /* by the word that was looked at last; NULL: to none */
    const char *why;
    const struct mvld_object *object; /* that `why` is about */
};

/* -ESTALE, with the sentence and the object (or NULL) noted. */
int apply_refuse(struct applying *, const struct rimf_object *, const char *why);
/* overlay_is_text of the object. */
static inline int apply_is_text(const struct rimf_object *object, const struct manifest_text *text)
{
    return object->public.phdr &&
           overlay_is_text(object->public.phdr, object->public.phnum, text);
}

/* store/apply_later.c: the objects of the table are these, of the frozen image with this checksum, the
 * first that is not apart at `base`; what comes later is known by its distance. */
void rimf_later_start(struct mvld_image *, const struct rimf_table *, const struct manifest_object *,
                      uintptr_t base, uint64_t checksum);

/* store/apply_moved.c: whether copies of code fit, before anything is changed; 0, or -ESTALE. */
int apply_compare_copies(struct applying *);
/* Maps them, and has the C library's questions about them answered.  0, or negative errno
 * and nothing is changed. */
int apply_copies(struct applying *);

/* store/apply_pointers.c.  What the word holds; of an address in a copy that is to be, the one at
 * home. */
uintptr_t apply_home(struct applying *, uintptr_t word);
/* Whether the words that are to lead to copies are those that were; 0, or
 * -ESTALE. */
int apply_compare_pointers(struct applying *);
/* They can be written.  0, or negative errno. */
int apply_open_pointers(struct applying *);
void apply_write_pointers(struct applying *);
void apply_close_pointers(struct applying *);

/* Maps the texts in which functions are that answer; between the copies and the other texts.
 * 0, or negative errno and none was mapped. */
int apply_answers(struct applying *);

#endif
