/* SPDX-License-Identifier: MIT
 *
 * rimf/realise/realise.h: when declared edits become changes.
 */
#ifndef RIMF_REALISE_H
#define RIMF_REALISE_H

#include "mvld/pass.h"

/* A pass has run: what it declared (calls_retarget of mvld/pass.h) is realised; with `moves_later`
 * what can is left to the pass behind it that moves code.  0, or negative errno with a sentence. */
int rimf_image_realise(struct mvld_image *, const struct mvld_context *, int moves_later);
/* realise/retarget.c: references that the pass led elsewhere, all or none.  0, or negative errno with a
 * sentence. */
int rimf_retargets_realise(struct mvld_image *, const struct mvld_context *);
/* copies_commit of mvld/pass.h: code moves, and then what waited for it is realised. */
int rimf_realise_moved(struct mvld_image *, struct mvld_copies_report *);
/* Passes have run, and constructors will: edits that waited for a pass to move code are realised, and
 * addresses become what they will be (rimf_image_finish of moved/moved.h). */
void rimf_realise_rest(struct mvld_image *);

#endif
