/* SPDX-License-Identifier: MIT
 *
 * lines.h: from addresses to source lines, through the debug information in a file.
 */
#ifndef LINES_H
#define LINES_H

#include "tools/common/elf_file.h"

struct lines; /* opaque */

/* NULL when the file has no debug information that can be read. */
struct lines *lines_open(const struct elf_file *);
void lines_close(struct lines *);
/* "file.c:12" in `to`, or "" when it is not known (or `lines` is NULL). */
void lines_find(struct lines *, uint64_t address, char *to, size_t size);

#endif
