/* SPDX-License-Identifier: MIT
 *
 * cache/ready.h: files of ready code (rimf/store/ready.h), for `mvld cache`.
 */
#ifndef CACHE_READY_H
#define CACHE_READY_H

#include "tools/cache/image.h"
#include "rimf/store/ready.h"

/* 1 for a name that such a file has. */
int ready_is_name(const char *name);
/* Opens the one at `path`, and compares its code when that is asked for; *why is a sentence to be freed, or
 * NULL.  file->map is NULL when nothing can be said of it. */
enum image_state ready_judge(struct ready_file *file, const char *path, int compare, char **why);

#endif
