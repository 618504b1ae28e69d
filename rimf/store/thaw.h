/* SPDX-License-Identifier: MIT
 *
 * rimf/store/thaw.h: a frozen image on its way into a process; for image_thaw*.c.
 */
#ifndef RIMF_THAW_H
#define RIMF_THAW_H

#include "rimf/store/frozen.h"
#include "rimf/image/private.h"

struct thaw {
    struct mvld_image *image;
    const struct frozen_file *file;
    const struct frozen *frozen;
    const struct rimf_table *table;
    uintptr_t base; /* bias of the first object that is not apart */
    int based;      /* it is known */
    int *files;     /* descriptors of the copies of files, by object; -1: none */
    long mapped; /* texts */
    uint32_t first_pointer; /* those before lead to copies */
    const struct frozen_copy *led_to; /* by the word that was looked at last; NULL: to none */
    const char *why;
    const struct mvld_object *object; /* that `why` is about */
};

/* -ESTALE, with the sentence and the object (or NULL) noted. */
int thaw_refuse(struct thaw *, const struct rimf_object *, const char *why);
/* frozen_is_text of the object. */
static inline int thaw_is_text(const struct rimf_object *object, const struct frozen_text *text)
{
    return object->public.phdr &&
           frozen_is_text(object->public.phdr, object->public.phnum, text);
}

/* store/thaw_later.c: the objects of the table are these, of the frozen image with this checksum, the
 * first that is not apart at `base`; what comes later is known by its distance. */
void rimf_later_start(struct mvld_image *, const struct rimf_table *, const struct frozen_object *,
                      uintptr_t base, uint64_t checksum);

/* store/thaw_copies.c: whether copies of code fit, before anything is changed; 0, or -ESTALE. */
int thaw_compare_copies(struct thaw *);
/* Maps them, and has the C library's questions about them answered.  0, or negative errno
 * and nothing is changed. */
int thaw_copies(struct thaw *);

/* store/thaw_pointers.c.  What the word holds; of an address in a copy that is to be, the one at
 * home. */
uintptr_t thaw_home(struct thaw *, uintptr_t word);
/* Whether the words that are to lead to copies are those that were; 0, or
 * -ESTALE. */
int thaw_compare_pointers(struct thaw *);
/* They can be written.  0, or negative errno. */
int thaw_open_pointers(struct thaw *);
void thaw_write_pointers(struct thaw *);
void thaw_close_pointers(struct thaw *);

/* Maps the texts in which functions are that answer; between the copies and the other texts.
 * 0, or negative errno and none was mapped. */
int thaw_answers(struct thaw *);

#endif
