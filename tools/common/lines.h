/* SPDX-License-Identifier: MIT
 *
 * lines.h: maps addresses to source lines, by a file's debug information.
 */
#ifndef LINES_H
#define LINES_H

#include "tools/common/elf_file.h"

struct lines; /* opaque */

/* NULL if the file has no readable debug information. */
struct lines *lines_open(const struct elf_file *);
void lines_close(struct lines *);
/* Writes "file.c:12", or "" if it is unknown (or `lines` is NULL). */
void lines_find(struct lines *, uint64_t address, char *to, size_t size);

#endif
