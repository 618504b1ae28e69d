/* SPDX-License-Identifier: MIT
 *
 * loader/config/needed.h: DT_NEEDED of a file.
 */
#ifndef LOADER_NEEDED_H
#define LOADER_NEEDED_H

#include "rimf/base/sys.h"

#include <elf.h> /* numbers and layouts */

/* Whether a DT_NEEDED of this name is musl's libc. */
int musl_is_needed(const char *name);
/* Visits the names (their first 31 bytes) in DT_NEEDED of a file with these program headers. */
void needed_each(const struct rimf_sys *, int fd, const Elf64_Phdr *, size_t phnum,
                 void (*visit)(void *cookie, const char *name), void *cookie);

#endif
