/* SPDX-License-Identifier: MIT
 *
 * rimf/realise/realise.h: when declared edits become changes.
 */
#ifndef RIMF_REALISE_H
#define RIMF_REALISE_H

#include "mvld/pass.h"

/* A pass has run: what it added can be used, and what it wants is wanted from here on.
 * 0, or negative errno with a sentence: nothing of it is. */
int rimf_pass_ran(struct mvld_image *, const struct mvld_context *);
/* It has failed: nothing of what it wants is wanted any more. */
void rimf_pass_failed(struct mvld_image *, const struct mvld_context *);
/* What passes want, but for the one that runs, becomes memory.  0, or negative errno: of some pass it did not, which
 * rimf_image_set_failed is told. */
int rimf_image_emit(struct mvld_image *);
/* The same, where the pass that runs is about to ask for bytes as they are: it meets what those before it want. */
void rimf_image_emit_before(struct mvld_image *);
/* realise/retarget.c: references lead where passes want them, but for the one that runs.  NULL; or *error, with a
 * sentence, and the pass that cannot have what it wants: none is changed. */
const struct mvld_context *rimf_retargets_emit(struct mvld_image *, int *error);

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
/* Sections that a pass added can go while nothing leads there. */
int rimf_section_remove(const struct mvld_context *, const struct mvld_section *);
void *rimf_code_add(const struct mvld_context *, size_t size, const struct mvld_new_function *, size_t n, uint32_t names);

/* Bits of mvld_context.matched: what setting_symbol found of the first settings; the others it does not note. */
#define RIMF_SETTINGS_MATCHED 64u

/* ---- realise/system.c: behind rimf_api() ---------------------------------------------- */

char *rimf_file_read(const struct mvld_context *, const struct mvld_setting *, size_t *size);
char *rimf_object_path(struct mvld_image *, const struct mvld_object *);
int rimf_setting_symbol(const struct mvld_context *, const struct mvld_setting *, struct mvld_symbol *out);
int rimf_file_place(const struct mvld_context *, const struct mvld_file *, uintptr_t address);
/* realise/file_view.c; and ends it, when the pass has returned. */
const struct mvld_object *rimf_file_object(const struct mvld_context *, const struct mvld_file *);
void rimf_file_close(struct mvld_image *);
int rimf_random(const struct mvld_image *, void *to, size_t size);

#endif
