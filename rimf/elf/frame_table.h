/* SPDX-License-Identifier: MIT
 *
 * rimf/elf/frame_table.h: where functions begin and end, by an object's unwind tables.
 */
#ifndef RIMF_FRAME_TABLE_H
#define RIMF_FRAME_TABLE_H

#include <mvld/pass.h>

/* A function, or a part of one that lies elsewhere. */
struct elf_frame {
    uintptr_t start;
    size_t size;
    uintptr_t fde; /* its frame description entry */
};

/* Finds what contains the address.  `holds` is object_holds of the object's image, which may be another copy of mvld's.
 * 0; or -ENOENT: none is described there, or the table has another form than linkers give it. */
int elf_frame_find(const struct mvld_object *,
                   int (*holds)(const struct mvld_object *, uintptr_t address, size_t length, uint32_t prot),
                   uintptr_t address, struct elf_frame *out);

#endif
