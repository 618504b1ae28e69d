/* SPDX-License-Identifier: MIT
 *
 * rimf/image/frames.h: where functions begin and end, by an object's unwind tables.
 */
#ifndef RIMF_FRAMES_H
#define RIMF_FRAMES_H

#include <mvld/pass.h>

/* A function, or a part of one that lies elsewhere. */
struct rimf_frame {
    uintptr_t start;
    size_t size;
    uintptr_t fde; /* its frame description entry */
};

/* Finds what contains the address.  `holds` is object_holds of the object's image, which may be another copy of mvld's.
 * 0; or -ENOENT: none is described there, or the table has another form than linkers give it. */
int rimf_frame_find(const struct mvld_object *,
                    int (*holds)(const struct mvld_object *, uintptr_t address, size_t length, uint32_t prot),
                    uintptr_t address, struct rimf_frame *out);

#endif
