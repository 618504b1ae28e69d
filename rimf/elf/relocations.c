/* SPDX-License-Identifier: MIT
 *
 * rimf/elf/relocations.c: finds the relocation that fills a GOT slot, and the words that are
 * relocated to addresses.
 */
#include "rimf/elf/view.h"

#include <errno.h> /* numbers only */

/* Slots and their relocations are usually in the same order: try that index first. */
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

int elf_pointer_each(const struct elf_view *view, int (*visit)(void *cookie, uintptr_t word), void *cookie)
{
    int result = 0;

    for (size_t i = 0; i < view->n_relocations && !result; i++) {
        uint32_t type = ELF64_R_TYPE(view->relocations[i].r_info);

        if (type == R_X86_64_RELATIVE || type == R_X86_64_64 || type == R_X86_64_IRELATIVE)
            result = visit(cookie, view->bias + view->relocations[i].r_offset);
    }
    return result ? result : elf_relr_each(view, visit, cookie);
}
