/* SPDX-License-Identifier: MIT
 *
 * rimf/image/edits.h: the targets that passes want for calls through slots (calls_retarget of mvld/pass.h).
 */
#ifndef RIMF_IMAGE_EDITS_H
#define RIMF_IMAGE_EDITS_H

#include "rimf/image/private.h"

#define EDIT_REASONS 24u
#define EDIT_STEPS 8u /* an entry of an executable's PLT may jump to another object's */
#define EDITS_MOST 32u /* of an object */

/* Calls that stay, by reason; calls of further reasons are counted together. */
struct edit_left {
    const char *why; /* static */
    size_t n;
};

struct edit_counts {
    size_t objects; /* with an analysis */
    size_t sites, made, pages;
};

/* The result for the calls of all objects with an edit of one pass. */
struct rimf_edit_report {
    struct rimf_edit_report *next;
    const struct mvld_context *ctx;
    struct edit_counts all;
    struct edit_left left[EDIT_REASONS];
    size_t n_left;
};

/* The edit of one pass for the calls of one object, after those of earlier passes. */
struct rimf_edit {
    struct rimf_edit *next; /* of a later pass */
    const struct mvld_context *ctx;
    mvld_calls_rule *rule;
    struct rimf_edit_report *report; /* NULL: emitted */
    struct edit_counts now;
};

/* The wanted target of calls through one slot.  Each bit of `by` and `by_moved` is an edit of the object,
 * in order, that changes the target. */
struct rimf_wanted {
    uintptr_t target;      /* for calls in place; 0: they stay */
    uintptr_t moved;       /* for calls in code that moves; 0: they stay */
    uint32_t by, by_moved; /* the edits for each */
    const char *why;       /* the reason of the last edit that keeps them, or NULL */
};

/* A binding, and the words that contain it: what an edit relies on. */
struct bound {
    struct mvld_binding binding;
    uintptr_t shown[EDIT_STEPS];
    size_t n;
};

/* ---- image/edits.c: of the object's edits ----------------------------------------------- */

/* The last edit, of the running pass, counts when the pass has returned. */
static inline struct rimf_edit *rimf_edit_if_finished(const struct mvld_image *image, struct rimf_edit *edit)
{
    return edit && edit->ctx == image->unfinished ? NULL : edit;
}
static inline struct rimf_edit *rimf_edits_of(const struct mvld_image *image, const struct rimf_object *object)
{
    return rimf_edit_if_finished(image, object->edit);
}
static inline struct rimf_edit *rimf_edit_behind(const struct mvld_image *image, const struct rimf_edit *edit)
{
    return rimf_edit_if_finished(image, edit->next);
}

/* Whether an edit of the object was not emitted yet. */
int rimf_edit_waits(const struct mvld_image *, const struct rimf_object *);
/* Calls the rules of the object's edits, each with what earlier ones want, and verifies the results;
 * records what they relied on. */
struct rimf_wanted rimf_edit_wanted(struct mvld_image *, const struct rimf_object *, uintptr_t slot);
/* Returns 1 if a call of code that runs there, as mapped, is a call through the slot: the host loader sends
 * it there, or emitted edits did. */
int rimf_edit_led(struct mvld_image *, const struct rimf_object *, uintptr_t slot, uintptr_t names);
/* The wanted and found targets of calls through the slot; zeros: not certain. */
struct mvld_binding rimf_call_wanted(struct mvld_image *, const struct rimf_object *, uintptr_t slot);
/* The host loader's target of a call through the slot, or 0: not certain. */
uintptr_t rimf_slot_end(struct mvld_image *, const struct rimf_object *, uintptr_t slot);
/* Counts calls that stay. */
void rimf_edit_left(struct rimf_edit *, const char *why, size_t n);
/* Why no reference may have the target `target`, in `holder`, or NULL (static). */
const char *rimf_unfit_target(const struct mvld_context *, const struct mvld_object *holder,
                              uintptr_t target);

extern const char edit_far[], edit_other[]; /* two reasons */

#endif
