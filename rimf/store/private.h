/* SPDX-License-Identifier: MIT
 *
 * rimf/store/private.h: what the checks of a frozen image share.
 */
#ifndef RIMF_FROZEN_PRIVATE_H
#define RIMF_FROZEN_PRIVATE_H

#include "store/manifest.h"

#define COPY_SIZE_MAX (1ul << 40) /* of a file that is mapped over another one */

/* store/manifest_moved.c: what is wrong with the region, its copies, their homes and pointers, or NULL.  The
 * objects and the passes have been checked. */
const char *manifest_check_copies(const struct manifest *);

#endif
