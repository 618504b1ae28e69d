/* SPDX-License-Identifier: MIT
 *
 * rimf/elf/source.h: facts about a mapped object before it is read.
 */
#ifndef RIMF_SOURCE_H
#define RIMF_SOURCE_H

#include "mvld/pass/objects.h"

struct file_id;

/* The feeder's facts about one object.  `phdr` may be NULL: then the ELF header is looked for at
 * `bias`, if that page is mapped, and before the dynamic section.  `dynamic` (to DT_NULL) and
 * `phdr`, if given, are readable, because the host loader has read them.  Strings are copied. */
struct rimf_source {
    const char *name;
    uintptr_t bias;
    const void *dynamic;
    const void *phdr;
    size_t phnum;
    uint32_t flags; /* MVLD_OBJECT_* */
    void *link_map;
    const struct file_id *file; /* that it was mapped from; NULL: unknown */
    /* If the dynamic section points to other tables of relocations (rimf/store/manifest.h): these,
     * and the addresses of its own, which are used instead; 0: it points to its own. */
    uintptr_t tables, original_tables;
    size_t tables_size;
};

#endif
