/* SPDX-License-Identifier: MIT
 *
 * rimf/realise/changes.h: makes the calls of an object direct in this process.
 */
#ifndef RIMF_REALISE_CHANGES_H
#define RIMF_REALISE_CHANGES_H

#include "rimf/emit/calls.h"

/* ---- realise/patches.c ------------------------------------------------------------------ */

/* Makes the calls by patches, each verified alone, where they run.  0, or negative errno with a sentence:
 * nothing more can be changed. */
int change_patches(struct emit_calls *);

/* ---- realise/changes.c ------------------------------------------------------------------ */

/* Emits the object's calls at present addresses, except those in moved fragments from number `made` of the
 * list on, and counts in the `now` of its edits.  0, or negative errno with a sentence; -ENODATA, with the
 * sentence in *why: it has no analysis; with NULL: it has no such calls. */
int rimf_calls_change(struct mvld_image *, struct rimf_object *, size_t made, const char **why);

#endif
