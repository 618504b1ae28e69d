/* SPDX-License-Identifier: MIT
 *
 * loader/process/notes.c: reads the build-id from unchecked notes.
 */
#include "loader/process/process.h"

void find_build_id(const char *notes, uint64_t size, struct identity *out)
{
    while (size >= sizeof(Elf64_Nhdr)) {
        const Elf64_Nhdr *note = (const void *)notes;
        uint64_t name = (note->n_namesz + 3ull) & ~3ull, desc = (note->n_descsz + 3ull) & ~3ull;

        if (name + desc > size - sizeof *note)
            return;
        if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
            memcmp(note + 1, "GNU", 4) == 0) {
            out->build_id = (const uint8_t *)(note + 1) + name;
            out->size = note->n_descsz;
            return;
        }
        notes += sizeof *note + name + desc;
        size -= sizeof *note + name + desc;
    }
}
