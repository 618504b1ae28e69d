/* SPDX-License-Identifier: MIT
 *
 * rimf/realise/realise.h: when declared edits become changes.
 */
#ifndef RIMF_REALISE_H
#define RIMF_REALISE_H

#include "mvld/pass.h"

/* A pass has run: code that it declared (fragment_move of mvld/pass.h) moves, then its rules for calls
 * (calls_retarget) are realised, and those that waited for it; with `moves_later` these are left to the
 * pass behind it that moves code.  0, or negative errno with a sentence. */
int rimf_image_realise(struct mvld_image *, const struct mvld_context *, int moves_later);
/* realise/retarget.c: references that the pass led elsewhere, all or none.  0, or negative errno with a
 * sentence. */
int rimf_retargets_realise(struct mvld_image *, const struct mvld_context *);
/* The pass has failed: nothing of what it declared will be. */
void rimf_image_forget(struct mvld_image *, const struct mvld_context *);
/* Passes have run, and constructors will: edits that waited for a pass to move code are realised, and
 * addresses become what they will be (rimf_image_finish of moved/moved.h). */
void rimf_realise_rest(struct mvld_image *);

/* realise/restore.c: calls that were made direct go through their slots again, in all objects.  Whoever watches
 * calls was named before (rimf_image_set_auditor), so that no more become direct. */
struct rimf_restored {
    size_t calls, left; /* that do, and that do not */
    const struct mvld_object *unknown; /* one of which nobody knows which calls are direct, and */
    const char *why;                   /* why; or NULL */
};
struct rimf_restored rimf_calls_restore(struct mvld_image *);

/* realise/added.c: code that a pass added is known by name, and unwound through; or with `failed` is not.  0, or
 * negative errno with a sentence. */
int rimf_added_realise(struct mvld_image *, int failed);
void *rimf_code_add(const struct mvld_context *, size_t size, const struct mvld_new_function *, size_t n, uint32_t names);

/* Bits of mvld_context.matched: what setting_symbol found of the first settings; the others it does not note. */
#define RIMF_SETTINGS_MATCHED 64u

/* ---- realise/system.c: behind rimf_api() ---------------------------------------------- */

char *rimf_file_read(const struct mvld_context *, const struct mvld_setting *, size_t *size);
char *rimf_object_path(struct mvld_image *, const struct mvld_object *);
int rimf_setting_symbol(const struct mvld_context *, const struct mvld_setting *, struct mvld_symbol *out);
int rimf_file_place(const struct mvld_context *, const struct mvld_file *, uintptr_t address);
int rimf_random(const struct mvld_image *, void *to, size_t size);

#endif
