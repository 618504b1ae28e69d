/* SPDX-License-Identifier: MIT
 *
 * rimf/realise/changes.h: the calls of an object become direct in this process (emit/calls.h): the sink `patch`.
 */
#ifndef RIMF_REALISE_CHANGES_H
#define RIMF_REALISE_CHANGES_H

#include "rimf/emit/calls.h"

/* realise/changes.c: together, where that can be; `apart`: some of the code runs elsewhere.  Counts in the `now` of the
 * object's edits.  0, or negative errno with a sentence: nothing more can be changed. */
int change_calls(struct emit_calls *, int apart);
/* realise/patches.c: as patches, which are judged each on its own, where they run.  The same. */
int change_patches(struct emit_calls *);

#endif
