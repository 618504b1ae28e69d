/* SPDX-License-Identifier: MIT
 *
 * rimf/store/frozen_private.h: what the checks of a frozen image share.
 */
#ifndef RIMF_FROZEN_PRIVATE_H
#define RIMF_FROZEN_PRIVATE_H

#include "rimf/store/frozen.h"

#define COPY_SIZE_MAX (1ul << 40) /* of a file that is mapped over another one */

/* frozen_copies.c: what is wrong with the region, its copies, their homes and pointers, or NULL.  The
 * objects and the passes have been checked. */
const char *frozen_check_copies(const struct frozen *);

#endif
