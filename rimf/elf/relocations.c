/* SPDX-License-Identifier: MIT
 *
 * rimf/elf/relocations.c: which relocation fills a GOT slot.
 */
#include "rimf/elf/view.h"

#include <errno.h> /* numbers only */

/* Slots and their relocations are usually in the same order: look there first. */
static int find_plt(const struct elf_view *view, uint64_t offset, Elf64_Rela *out)
{
    const Elf64_Rela *table = view->plt_relocations;
    size_t guess;

    if (!view->n_plt_relocations)
        return -ENOENT;
    guess = (size_t)((offset - table[0].r_offset) / sizeof(Elf64_Addr));
    if (guess < view->n_plt_relocations && table[guess].r_offset == offset) {
        *out = table[guess];
        return 0;
    }
    for (size_t i = 0; i < view->n_plt_relocations; i++) {
        if (table[i].r_offset == offset) {
            *out = table[i];
            return 0;
        }
    }
    return -ENOENT;
}

int elf_slot_relocation(const struct elf_view *view, uintptr_t slot, Elf64_Rela *out)
{
    uint64_t offset = slot - view->bias;

    if (find_plt(view, offset, out) == 0)
        return ELF64_R_TYPE(out->r_info) == R_X86_64_JUMP_SLOT ||
                       ELF64_R_TYPE(out->r_info) == R_X86_64_IRELATIVE
                   ? 0
                   : -ENOENT;
    for (size_t i = view->n_relative; i < view->n_relocations; i++) {
        if (view->relocations[i].r_offset != offset)
            continue;
        *out = view->relocations[i];
        return ELF64_R_TYPE(out->r_info) == R_X86_64_GLOB_DAT ? 0 : -ENOENT;
    }
    return -ENOENT;
}
