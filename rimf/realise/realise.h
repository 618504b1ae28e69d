/* SPDX-License-Identifier: MIT
 *
 * rimf/realise/realise.h: makes declared edits.
 */
#ifndef RIMF_REALISE_H
#define RIMF_REALISE_H

#include "mvld/pass.h"

/* A pass has run: what it added becomes usable, and its edits are wanted from here on.  0, or negative errno
 * with a sentence: none of them is. */
int rimf_pass_ran(struct mvld_image *, const struct mvld_context *);
/* A pass has failed: its edits are dropped. */
void rimf_pass_failed(struct mvld_image *, const struct mvld_context *);
/* Makes the edits of passes, except the running one's.  0, or negative errno: those of some pass could not be
 * made, which the feeder's `failed` is told. */
int rimf_image_emit(struct mvld_image *);
/* The same, before the running pass uses actual bytes: earlier passes' edits are made. */
void rimf_image_emit_before(struct mvld_image *);
struct emit_calls; /* emit/calls.h */
/* realise/calls.c: makes them in this process, together if possible; `apart`: some of the code has moved.  Counts
 * in the `now` of the object's edits.  0, or negative errno with a sentence: nothing more can be changed. */
int rimf_calls_change(struct emit_calls *, int apart);
/* realise/retarget.c: changes references as passes want, except the running one.  NULL; or *error, with a
 * sentence, and the pass whose edits cannot be made: none is changed. */
const struct mvld_context *rimf_retargets_emit(struct mvld_image *, int *error);
/* Words are written, when calls were: until then slots show what calls are verified by. */
void rimf_retargets_end(struct mvld_image *);

/* realise/restore.c: makes direct calls go through their slots again, in all objects.  The auditor was set
 * before (rimf_feeder), so that no more become direct. */
struct rimf_restored {
    size_t calls, left; /* changed back, and not */
    const struct mvld_object *unknown; /* an object whose direct calls are unknown, and */
    const char *why;                   /* the reason; or NULL */
};
struct rimf_restored rimf_calls_restore(struct mvld_image *);

/* realise/added.c: announces code that the pass added by name and unwind table; or with `failed` does not.
 * There is a region.  0, or negative errno with a sentence. */
int rimf_added_realise(struct mvld_image *, const struct mvld_context *, int failed);
/* Sections that a pass added can go while nothing leads there. */
int rimf_section_remove(const struct mvld_context *, const struct mvld_section *);
void *rimf_code_add(const struct mvld_context *, size_t size, const struct mvld_new_function *, size_t n,
                    uint32_t names);
/* The same behind the last pass.  NULL, with a sentence. */
void *rimf_code_place(const struct mvld_context *, size_t size, const struct mvld_new_function *, size_t n,
                      uint32_t names);

/* realise/splices.c: makes the splices of passes, except the running one's.  NULL; or *error, with a sentence, and the
 * pass that fails: none is made. */
const struct mvld_context *rimf_splices_emit(struct mvld_image *, int *error);
/* 1: there are some that it would make. */
int rimf_splices_wait(const struct mvld_image *);

/* Bits of mvld_context.matched: whether setting_symbol found something, for the first settings; others are
 * not recorded. */
#define RIMF_SETTINGS_MATCHED 64u

/* realise/file_view.c, behind rimf_api().  The second ends the view when the pass has returned. */
const struct mvld_object *rimf_file_object(const struct mvld_context *, const struct mvld_file *);
void rimf_file_close(struct mvld_image *);

#endif
