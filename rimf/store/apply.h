/* SPDX-License-Identifier: MIT
 *
 * rimf/store/apply.h: a manifest on its way into a process; for apply*.c.
 *
 * What is the same for all three kinds is in apply.c: whether an object is the file, whether words lead where
 * they did, and laying texts.  0 is good there; -ESTALE is not, with the sentence and the object noted.
 */
#ifndef RIMF_STORE_APPLY_H
#define RIMF_STORE_APPLY_H

#include "rimf/image/private.h"
#include "rimf/store/store.h"

struct applying {
    struct mvld_image *image;
    const struct manifest_file *file;
    const struct manifest *m;
    struct rimf_object *const *objects; /* by number; NULL: not there */
    long mapped;                        /* texts */
    const char *why;
    const struct mvld_object *object; /* that `why` is about */
    /* Of a start: */
    const struct rimf_table *table;
    uintptr_t base; /* bias of the first object that has a place */
    int *files;     /* descriptors of overlays, by object; -1: none */
    uint32_t first_pointer;             /* those before lead to moved code */
    const struct manifest_fragment *led_to; /* by the word that was looked at last; NULL: to none */
};

/* ---- apply.c ---------------------------------------------------------------------- */

/* -ESTALE, with the sentence and the object (or NULL) noted. */
int apply_refuse(struct applying *, const struct rimf_object *, const char *why);
/* The object with that number is of its file, */
int apply_compare_file(struct applying *, uint32_t number);
/* the texts have the places of its own, */
int apply_compare_texts(struct applying *, uint32_t number);
/* and these words lead where they did. */
int apply_compare_words(struct applying *, const struct manifest_word *, uint32_t n);
/* The overlay's descriptor, or negative errno. */
long apply_open(struct applying *, uint32_t number);
/* Lays over what does not lie there yet.  0, or negative errno: one cannot be mapped; those before are right. */
int apply_texts(struct applying *, uint32_t number, int fd);

/* apply_later.c: the objects of the table are these, of the manifest with this checksum, the first that has a
 * place at `base`; what comes later is known by its distance. */
void rimf_later_start(struct mvld_image *, const struct rimf_table *, const struct manifest_object *,
                      uintptr_t base, uint64_t checksum);

/* ---- apply_start.c, apply_moved.c -------------------------------------------------- */

/* Maps the texts in which functions are that are hooked; between moved code and the other texts.
 * 0, or negative errno and none was mapped. */
int apply_caller_texts(struct applying *);
/* Whether moved code fits, before anything is changed. */
int apply_compare_moved(struct applying *);
/* Maps it, and has the caller hooks installed.  0, or negative errno
 * and nothing is changed. */
int apply_moved(struct applying *);

/* ---- apply_pointers.c -------------------------------------------------------------- */

/* What the word holds; of an address in moved code that is to be, the original one. */
uintptr_t apply_original(struct applying *, uintptr_t word);
/* Whether the words that are to lead to moved code are those that were. */
int apply_compare_pointers(struct applying *);
/* They can be written.  0, or negative errno. */
int apply_open_pointers(struct applying *);
void apply_write_pointers(struct applying *);
void apply_close_pointers(struct applying *);

#endif
