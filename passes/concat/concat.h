/* SPDX-License-Identifier: MIT
 *
 * concat.h: what the files of concat share.
 */
#ifndef CONCAT_CONCAT_H
#define CONCAT_CONCAT_H

#include "mvld/pass.h"

enum { /* order of the options */
    CONCAT_ORDER, CONCAT_LATER, CONCAT_LEAVE, CONCAT_DEBUGGER, CONCAT_PERF_MAP, CONCAT_PAGES
};

const char *concat_file_name(const struct mvld_object *);

/* Fills `order` with 0 .. n-1 as the option says. */
void concat_order(const struct mvld_context *, size_t *order, size_t n);

/* Those who look from outside hear of the copies that they do not know yet, as configured. */
void concat_tell(const struct mvld_context *);

#endif
