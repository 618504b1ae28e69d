/* SPDX-License-Identifier: MIT
 *
 * rimf/store/apply.h: a manifest while it is applied; for apply*.c.
 *
 * apply_start.c has the common part: whether an object is the recorded file, whether words have the recorded targets,
 * and mapping texts.  0 means yes; -ESTALE means no, with the sentence and the object stored.
 */
#ifndef RIMF_STORE_APPLY_H
#define RIMF_STORE_APPLY_H

#include "rimf/image/private.h"
#include "rimf/store/store.h"

struct applying {
    struct mvld_image *image;
    const struct manifest_file *file;
    const struct manifest *m;
    struct rimf_object *const *objects; /* by number; NULL: not present */
    long mapped;                        /* texts */
    const char *why;
    const struct mvld_object *object; /* the object of `why` */
    /* For a start: */
    const struct rimf_table *table;
    uintptr_t base; /* bias of the first placed object */
    int *files;     /* descriptors of overlays, by object; -1: none */
    uint32_t first_pointer;             /* those before have addresses of moved code */
    const struct manifest_fragment *target; /* the target of the word compared last; NULL: none */
};

/* ---- apply_start.c: an overlay -------------------------------------------------------- */

/* Stores the sentence and the object (or NULL); returns -ESTALE. */
int apply_refuse(struct applying *, const struct rimf_object *, const char *why);
/* Whether the object with that number is of its file. */
int apply_compare_file(struct applying *, uint32_t number);
/* Whether its texts have the recorded addresses. */
int apply_compare_texts(struct applying *, uint32_t number);
/* Whether these words have the recorded targets. */
int apply_compare_words(struct applying *, const struct manifest_word *, uint32_t n);
/* Opens the overlay; the descriptor, or negative errno. */
long apply_open(struct applying *, uint32_t number);
/* Maps the texts that are not mapped yet.  0, or negative errno: one cannot be mapped; the earlier ones are
 * right. */
int apply_texts(struct applying *, uint32_t number, int fd);

/* apply_later.c: the table's objects are these, of the manifest with this checksum, with the first placed one
 * at `base`; later objects are recognised by their distance. */
void rimf_later_start(struct mvld_image *, const struct rimf_table *, const struct manifest_object *,
                      uintptr_t base, uint64_t checksum);

/* ---- apply_start.c, apply_moved.c -------------------------------------------------- */

/* Maps the texts in which functions are that are hooked; between moved code and the other texts.
 * 0, or negative errno and none was mapped. */
int apply_caller_texts(struct applying *);
/* Of a manifest with moved code: whether it fits, before anything is changed. */
int apply_compare_moved(struct applying *);
/* Makes words for moved code writable, until apply_end_pointers; maps it, and installs the caller hooks.  0, or
 * negative errno and nothing is changed. */
int apply_moved(struct applying *);

/* ---- apply_moved.c: words ----------------------------------------------------------- */

/* The value of the word; for an address in moved code that will be mapped, the original one. */
uintptr_t apply_original(struct applying *, uintptr_t word);
/* Whether the words for moved code are the recorded ones. */
int apply_compare_pointers(struct applying *);
/* Writes them, if all went well. */
void apply_end_pointers(struct applying *, int write);

#endif
