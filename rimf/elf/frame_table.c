/* SPDX-License-Identifier: MIT
 *
 * rimf/elf/frame_table.c: see frame_table.h.
 *
 *     .eh_frame_hdr   version 1, encodings; …; number of entries
 *                     { start - header, FDE - header } …       ascending by start
 *     FDE             length, distance to CIE, start - here, size, …
 */
#include "rimf/elf/frame_table.h"

#include "rimf/base/base.h"
#include "rimf/elf/headers.h"

#include <errno.h>
#include <sys/mman.h> /* numbers only */

static uintptr_t word_at(uintptr_t at)
{
    int32_t word;

    memcpy(&word, (const void *)at, sizeof word);
    return (uintptr_t)(intptr_t)word;
}

/* As linkers write it: pcrel|sdata4, udata4, datarel|sdata4. */
static const uint8_t form[] = {1, 0x1b, 0x03, 0x3b};

int elf_frame_find(const struct mvld_object *object,
                    int (*holds)(const struct mvld_object *, uintptr_t, size_t, uint32_t), uintptr_t address,
                    struct elf_frame *out)
{
    const Elf64_Phdr *ph = object->phdr ? elf_phdr_last(object->phdr, object->phnum, PT_GNU_EH_FRAME) : NULL;
    uintptr_t header = ph ? object->bias + ph->p_vaddr : 0, table = header + 12;
    size_t n, begun;

    if (!ph || !holds(object, header, 12, PROT_READ) || memcmp((const void *)header, form, sizeof form) != 0)
        return -ENOENT;
    n = (uint32_t)word_at(header + 8);
    if (!holds(object, table, 8 * n, PROT_READ))
        return -ENOENT;
    begun = RIMF_BISECT(i, n, header + word_at(table + 8 * i) <= address);
    if (!begun)
        return -ENOENT;
    table += 8 * (begun - 1);
    out->start = header + word_at(table);
    out->fde = header + word_at(table + 4);
    if (!holds(object, out->fde, 17, PROT_READ) || out->fde + 8 + word_at(out->fde + 8) != out->start)
        return -ENOENT;
    out->size = (uint32_t)word_at(out->fde + 12);
    return address - out->start < out->size && holds(object, out->start, out->size, PROT_READ | PROT_EXEC) ? 0
                                                                                                           : -ENOENT;
}
