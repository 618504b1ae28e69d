/* SPDX-License-Identifier: MIT
 *
 * cold.h: functions that a program calls once, or as it ends or throws.
 */
#ifndef DIRECT_CALLS_COLD_H
#define DIRECT_CALLS_COLD_H

#include <mvld/pass.h>

int cold_name(const char *); /* 1: it is called so */

/* Whether an object defines such functions: where none does, no slot's name need be looked at, which
 * lies in distant memory. */
struct cold_holder {
    const struct mvld_object *object; /* NULL: nothing is known here */
    int defines;
};
#define COLD_HOLDERS 64u /* a table of these, by where objects lie; zero at first */

/* 1: the slot of `object` leads to such a function. */
int cold_is(const struct mvld_context *, struct cold_holder *known, const struct mvld_object *object,
            const struct mvld_binding *);

#endif
