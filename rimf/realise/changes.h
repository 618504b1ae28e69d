/* SPDX-License-Identifier: MIT
 *
 * rimf/realise/changes.h: the calls of an object on their way to be direct in this process.
 */
#ifndef RIMF_REALISE_CHANGES_H
#define RIMF_REALISE_CHANGES_H

#include "rimf/emit/calls.h"

/* ---- realise/patches.c ------------------------------------------------------------------ */

/* The calls as patches, which are judged each on its own, where they run.  0, or negative errno with a
 * sentence: nothing more can be changed. */
int change_patches(struct emit_calls *);

/* ---- realise/changes.c ------------------------------------------------------------------ */

/* Emits the object's calls where its code is, but for those in pieces of moved code from number `made` of the list
 * on, and counts in the `now` of its edits.  0, or negative errno with a sentence; -ENODATA, with the sentence in
 * *why: it has no analysis; with NULL: none of its calls is left. */
int rimf_calls_change(struct mvld_image *, struct rimf_object *, size_t made, const char **why);

#endif
