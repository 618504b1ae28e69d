/* SPDX-License-Identifier: MIT
 *
 * show.h: what `mvld show --json` writes for one file.
 */
#ifndef SHOW_H
#define SHOW_H

#include "tools/show/descriptors.h"
#include "tools/common/tools.h"

/* One object; with `code`, disassembly as well. */
void show_json(struct json *, const struct elf_file *, const struct descriptors *, int code);

#endif
