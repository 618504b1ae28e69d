/* SPDX-License-Identifier: MIT
 *
 * rimf/image/edits.h: what passes declared of the calls of objects (calls_retarget of
 * mvld/pass.h), until it is realised.
 */
#ifndef RIMF_IMAGE_EDITS_H
#define RIMF_IMAGE_EDITS_H

#include "rimf/image/private.h"

#define EDIT_REASONS 24u
#define EDIT_STEPS 8u /* an entry of an executable's PLT may lead to another object's */

/* Calls that were left, by reason; of more reasons the rest is counted together. */
struct edit_left {
    const char *why; /* static */
    size_t n;
};

struct edit_counts {
    size_t objects; /* with an analysis */
    size_t sites, made, pages;
};

/* What one pass wants of the calls of some objects, those whose `edit` it is. */
struct rimf_edit {
    struct rimf_edit *next; /* declared later */
    const struct mvld_context *ctx;
    mvld_calls_rule *rule;
    uint32_t flags; /* MVLD_CALLS_* */
    struct edit_counts all, now; /* now: of the object under way */
    struct edit_left left[EDIT_REASONS];
    size_t n_left;
};

/* A binding, and the words that show it: what an edit by it relies on. */
struct bound {
    struct mvld_binding binding;
    uintptr_t shown[EDIT_STEPS];
    size_t n;
};

/* ---- image/edits.c: of the object's edit ------------------------------------------------ */

/* As the rule says, once that is verified; noted is what it relied on.  With a reason and a
 * target, code that moves leads there. */
const char *rimf_edit_lead(struct mvld_image *, const struct rimf_object *, uintptr_t slot,
                           uintptr_t *target);
/* Where the host loader sends a call through the slot, or 0: that is not certain. */
uintptr_t rimf_slot_end(struct mvld_image *, const struct rimf_object *, uintptr_t slot);
/* Where calls in place shall lead, 0: they stay.  Of functions of a single instruction (slot 0)
 * 1: these shall stand where they are called. */
uintptr_t rimf_edit_end(struct mvld_image *, const struct rimf_object *, uintptr_t slot);
/* So many more calls were left. */
void rimf_edit_left(struct rimf_edit *, const char *why, size_t n);
/* Why no reference must lead to `target`, in `holder`, or NULL (static). */
const char *rimf_unfit_target(const struct mvld_context *, const struct mvld_object *holder,
                              uintptr_t target);

extern const char edit_far[], edit_other[]; /* two reasons */

#endif
