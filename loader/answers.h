/* SPDX-License-Identifier: MIT
 *
 * loader/answers.h: the two files of the answers (answers.c).
 */
#ifndef LOADER_ANSWERS_H
#define LOADER_ANSWERS_H

#include "loader.h"

/* answers_find.c: the two functions, proved to be what they are named.  0, or -ENOTSUP
 * with a sentence (static) in *why. */
int answers_find(const struct loader *, struct answer *dso_for_object, struct answer *addr,
                 const char **why);

#endif
