/* SPDX-License-Identifier: MIT
 *
 * passes.h: the passes in a folder, read and checked by the loader's own code.
 */
#ifndef PASSES_H
#define PASSES_H

#include "mvld/pass.h"

/* Calls `visit` for each pass in the colon-separated folders, in the loader's order: `pass` is NULL
 * if the file is refused, for the reason `why`.  Returns the number of files. */
size_t passes_each(const char *folders,
                   void (*visit)(void *cookie, const char *file, const struct mvld_pass *pass,
                                 const char *why),
                   void *cookie);

#endif
