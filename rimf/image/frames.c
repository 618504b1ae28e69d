/* SPDX-License-Identifier: MIT
 *
 * rimf/image/frames.c: see frames.h.
 *
 *     .eh_frame_hdr   version 1, encodings; …; number of entries
 *                     { start - header, FDE - header } …       ascending by start
 *     FDE             length, distance to CIE, start - here, size, …
 */
#include "rimf/image/frames.h"

#include "rimf/elf/view.h"
#include "rimf/x86/decode.h"

#include <errno.h>
#include <sys/mman.h> /* numbers only */

/* As linkers write it: pcrel|sdata4, udata4, datarel|sdata4. */
static const uint8_t form[] = {1, 0x1b, 0x03, 0x3b};

int rimf_frame_find(const struct mvld_object *object,
                    int (*holds)(const struct mvld_object *, uintptr_t, size_t, uint32_t), uintptr_t address,
                    struct rimf_frame *out)
{
    const Elf64_Phdr *ph = object->phdr ? elf_phdr_last(object->phdr, object->phnum, PT_GNU_EH_FRAME) : NULL;
    uintptr_t header = ph ? object->bias + ph->p_vaddr : 0;
    const uint8_t *table = (const uint8_t *)header + 12;
    size_t n, begun;

    if (!ph || !holds(object, header, 12, PROT_READ) || memcmp((const void *)header, form, sizeof form) != 0)
        return -ENOENT;
    n = (uint32_t)distance_at((const void *)(header + 8));
    if (!holds(object, header + 12, 8 * n, PROT_READ))
        return -ENOENT;
    begun = RIMF_BISECT(i, n, header + (uintptr_t)distance_at(table + 8 * i) <= address);
    if (!begun)
        return -ENOENT;
    table += 8 * (begun - 1);
    out->start = header + (uintptr_t)distance_at(table);
    out->fde = header + (uintptr_t)distance_at(table + 4);
    if (!holds(object, out->fde, 17, PROT_READ) ||
        out->fde + 8 + (uintptr_t)distance_at((const void *)(out->fde + 8)) != out->start)
        return -ENOENT;
    out->size = (uint32_t)distance_at((const void *)(out->fde + 12));
    return address - out->start < out->size && holds(object, out->start, out->size, PROT_READ | PROT_EXEC) ? 0 : -ENOENT;
}
