/* SPDX-License-Identifier: MIT
 *
 * rimf/image/edits.h: what passes want of the calls of objects that go through slots (calls_retarget of
 * mvld/pass.h).
 */
#ifndef RIMF_IMAGE_EDITS_H
#define RIMF_IMAGE_EDITS_H

#include "rimf/image/private.h"

#define EDIT_REASONS 24u
#define EDIT_STEPS 8u /* an entry of an executable's PLT may lead to another object's */
#define EDITS_MOST 32u /* of an object */

/* Calls that were left, by reason; of more reasons the rest is counted together. */
struct edit_left {
    const char *why; /* static */
    size_t n;
};

struct edit_counts {
    size_t objects; /* with an analysis */
    size_t sites, made, pages;
};

/* What became of the calls of all objects that one pass wanted something of. */
struct rimf_edit_report {
    struct rimf_edit_report *next;
    const struct mvld_context *ctx;
    struct edit_counts all;
    struct edit_left left[EDIT_REASONS];
    size_t n_left;
};

/* What one pass wants of the calls of one object, behind what the passes before it want. */
struct rimf_edit {
    struct rimf_edit *next; /* of a pass behind it */
    const struct mvld_context *ctx;
    mvld_calls_rule *rule;
    uint32_t flags;                  /* MVLD_CALLS_* */
    struct rimf_edit_report *report; /* NULL: it was emitted */
    struct edit_counts now;
};

/* Where calls through one slot are wanted.  A bit of `by` and `by_moved` is an edit of the object, in order,
 * that leads them somewhere. */
struct rimf_wanted {
    uintptr_t target;      /* where they stand; 0: they stay */
    uintptr_t moved;       /* in code that moves; 0: they stay */
    uint32_t by, by_moved; /* who wants the one and the other */
    const char *why;       /* why the last edit that leaves them does, or NULL */
};

/* A binding, and the words that show it: what an edit by it relies on. */
struct bound {
    struct mvld_binding binding;
    uintptr_t shown[EDIT_STEPS];
    size_t n;
};

/* ---- image/edits.c: of the object's edits ----------------------------------------------- */

/* That of the pass that runs, the last one, counts when it has returned. */
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

/* An edit of the object was not emitted yet. */
int rimf_edit_waits(const struct mvld_image *, const struct rimf_object *);
/* Asks the rules of the object's edits, each with what those before it want, and verifies the answers; what
 * they relied on is noted. */
struct rimf_wanted rimf_edit_wanted(struct mvld_image *, const struct rimf_object *, uintptr_t slot);
/* 1: a call of code that runs there, as it was mapped, is one through the slot: the host loader sends it there, or
 * edits that were emitted did. */
int rimf_edit_led(struct mvld_image *, const struct rimf_object *, uintptr_t slot, uintptr_t names);
/* 1: functions of a single instruction shall stand where they are called. */
int rimf_edit_singles(struct mvld_image *, const struct rimf_object *);
/* Where passes want calls through the slot, and where they were found to lead; zeros: that is not certain. */
struct mvld_binding rimf_call_wanted(struct mvld_image *, const struct rimf_object *, uintptr_t slot);
/* Where the host loader sends a call through the slot, or 0: that is not certain. */
uintptr_t rimf_slot_end(struct mvld_image *, const struct rimf_object *, uintptr_t slot);
/* So many more calls were left. */
void rimf_edit_left(struct rimf_edit *, const char *why, size_t n);
/* Why no reference must lead to `target`, in `holder`, or NULL (static). */
const char *rimf_unfit_target(const struct mvld_context *, const struct mvld_object *holder,
                              uintptr_t target);

extern const char edit_far[], edit_other[]; /* two reasons */

#endif
