/* SPDX-License-Identifier: MIT
 *
 * rimf/emit/changes.h: a list of changes of code of this process: each is a place, the bytes that must be there, and
 * the new bytes.  Whatever passes want of code that was mapped before becomes such a list: references, splices,
 * traps, operands and jumps of originals, calls that cannot be changed while they are read (realise/calls.c).
 *
 * All are listed first.  Then one function sorts them, has the patch engine verify each, and writes them.
 *
 *     struct changes list = {.image = image};
 *
 *     changes_add(&list, …);
 *     error = changes_all(&list);
 *     changes_end(&list);
 *
 * By one thread.
 */
#ifndef RIMF_EMIT_CHANGES_H
#define RIMF_EMIT_CHANGES_H

#include "rimf/image/private.h"

struct change {
    uintptr_t at;
    uint64_t old, now;
    uint16_t length;
    uint16_t joined; /* as in struct mvld_word */
};

struct changes {
    struct mvld_image *image;
    int unentered;            /* no thread is in the code to be changed (rimf_patch_unentered) */
    struct change *list;
    size_t n, room;
    struct mvld_batch *batch;
    void *words;              /* of the batch */
    int error;
    size_t made, refused;     /* patches, once they are made */
    uintptr_t at;             /* the first that was refused */
};

/* Adds a change.  An error is returned when the list is made. */
void changes_add(struct changes *, uintptr_t at, const void *old, const void *now, size_t length);
/* Makes all of them, or none.  0, or negative errno with a sentence; -EBUSY: some were refused. */
int changes_all(struct changes *);
/* Makes each that is not refused.  0, or negative errno with a sentence: none was made. */
int changes_each(struct changes *);
/* Visits the places that were not changed.  After changes_all, those that were refused. */
void changes_refused(const struct changes *, void (*visit)(void *cookie, uintptr_t at), void *cookie);
/* Releases memory.  The list is empty then. */
void changes_end(struct changes *);

#endif
