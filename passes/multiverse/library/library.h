/* SPDX-License-Identifier: MIT
 *
 * library.h: what the files of libmultiverse know of each other.
 */
#ifndef MULTIVERSE_LIBRARY_H
#define MULTIVERSE_LIBRARY_H

#include "engine.h"

/* Lists the objects of the process with dl_iterate_phdr and brings image and
 * engine up to date.  0, or negative errno.  objects.c */
int mv_library_refresh(struct mv_engine *);

#endif
