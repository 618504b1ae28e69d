/* SPDX-License-Identifier: MIT
 *
 * loader/manager/pass_map.h: maps the shared object of a pass.
 */
#ifndef LOADER_PASS_MAP_H
#define LOADER_PASS_MAP_H

#include "mvld/pass.h"
#include "loader/config/config.h"
#include "rimf/analysis/analysis.h"

#define PASS_SEGMENTS_MAX 16u

struct pass_object {
    const struct mvld_pass *pass;
    const char *path; /* the caller's string */
    uintptr_t base;   /* address of linked address 0 */
    uintptr_t start, end;
    struct mvld_segment segments[PASS_SEGMENTS_MAX];
    size_t n_segments;
    struct file_id identity; /* of its file */
};

/* Maps the pass in `fd` (read from `path`, which is only a name here), relocates and checks it; `name` is
 * the name that it must declare.  0, or negative errno and a sentence, with nothing mapped.  `fd` may be
 * closed afterwards.  None of its code has run. */
int pass_map(const struct rimf_sys *, int fd, const char *path, const char *name,
             struct pass_object *out, const struct why *);
void pass_unmap(const struct rimf_sys *, struct pass_object *);

/* The end of the segment with at least `prot` that contains `address`, or 0. */
uintptr_t pass_segment_end(const struct pass_object *, uintptr_t address, uint32_t prot);
/* Returns 1 if [address, address + length) is in one segment with at least `prot`. */
int pass_holds(const struct pass_object *, uintptr_t address, size_t length, uint32_t prot);

/* pass_map_check.c: checks the declarations of a mapped and relocated pass; symbol_size is the size of
 * `mvld_pass` in its symbol table. */
int pass_check(const struct pass_object *, const char *name, uint64_t symbol_size,
               const struct why *);

#endif
