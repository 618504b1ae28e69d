/* SPDX-License-Identifier: MIT
 *
 * rimf/elf/source.h: what is known of a mapped object before anything of it is read.
 */
#ifndef RIMF_SOURCE_H
#define RIMF_SOURCE_H

#include "mvld/pass/objects.h"

struct file_id; /* rimf/base/file_id.h */

/* What the feeder knows of one object.  `phdr` may be NULL: then the ELF header
 * is looked for at `bias`, if that page is mapped, and before the dynamic section.
 * `dynamic` (to DT_NULL) and `phdr`, where given, can be read: the host loader has
 * read them.
 * Strings are copied. */
struct rimf_source {
    const char *name;
    uintptr_t bias;
    const void *dynamic;
    const void *phdr;
    size_t phnum;
    uint32_t flags; /* MVLD_OBJECT_* */
    void *link_map;
    /* The file that it was mapped from, or NULL: unknown. */
    const struct file_id *identity;
    /* Tables of relocations of another's that the dynamic section leads to (rimf/store/manifest.h), and where its
     * own are, which are taken; 0: it leads to its own. */
    uintptr_t tables, original_tables;
    size_t tables_size;
    /* Memory outside of it that its tables of symbols were brought to (elf/extend.c); empty: none. */
    struct mvld_segment extended;
    size_t room; /* its tables of symbols get room for so many more (image/symbol_edits.c) */
};

#endif
