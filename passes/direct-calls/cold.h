/* SPDX-License-Identifier: MIT
 *
 * cold.h: functions that a program calls once, or as it ends or throws.
 */
#ifndef DIRECT_CALLS_COLD_H
#define DIRECT_CALLS_COLD_H

#include <mvld/pass.h>

int cold_name(const char *); /* 1: the name is one of these */

/* Returns 1 if the slot of `object` points to such a function. */
int cold_is(const struct mvld_context *, const struct mvld_object *object, const struct mvld_binding *);

#endif
