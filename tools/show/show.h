/* SPDX-License-Identifier: MIT
 *
 * show.h: shared by the files of `mvld show`.
 */
#ifndef SHOW_H
#define SHOW_H

#include "tools/show/descriptors.h"
#include "tools/common/lines.h"
#include "tools/common/tools.h"

/* A file to be shown. */
struct show_view {
    const struct elf_file *f;
    const struct descriptors *d;
    struct lines *lines; /* NULL: not requested, or none */
    int code;            /* disassemble */
};

/* The function of this file that a call targets, or NULL. */
const struct mv_function *show_callee_of(const struct descriptors *, const struct elf_target *callee);
/* One object. */
void show_json(struct json *, const struct show_view *);

#endif
