/* SPDX-License-Identifier: MIT
 *
 * rimf/realise/changes.h: makes the calls of an object direct in this process (emit/calls.h): the sink
 * `patch`.
 */
#ifndef RIMF_REALISE_CHANGES_H
#define RIMF_REALISE_CHANGES_H

#include "rimf/emit/calls.h"

/* realise/changes.c: changes them together, if possible; `apart`: some of the code has moved.  Counts in the
 * `now` of the object's edits.  0, or negative errno with a sentence: nothing more can be changed. */
int change_calls(struct emit_calls *, int apart);
/* realise/patches.c: makes patches, each verified alone, where the code runs.  Likewise. */
int change_patches(struct emit_calls *);

#endif
