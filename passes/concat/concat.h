/* SPDX-License-Identifier: MIT
 *
 * concat.h: what the files of concat share.
 */
#ifndef CONCAT_CONCAT_H
#define CONCAT_CONCAT_H

#include "mvld/pass.h"

enum { CONCAT_ORDER, CONCAT_LATER, CONCAT_LEAVE }; /* order of the options */

/* Fills `order` with 0 .. n-1 as the option says. */
void concat_order(const struct mvld_context *, size_t *order, size_t n);

#endif
