/* SPDX-License-Identifier: MIT
 *
 * rimf/image/slots.h: shared by image/slots.c and image/slots_lazy.c.
 */
#ifndef RIMF_IMAGE_SLOTS_H
#define RIMF_IMAGE_SLOTS_H

#include "rimf/image/private.h"

/* Of a lazy slot, once queried. */
struct resolved {
    uintptr_t target;
    uintptr_t shown; /* by another slot, or 0 */
    const char *why;
    int known;
};

static inline int slot_is(const Elf64_Rela *relocation, int of_plt)
{
    uint32_t type = ELF64_R_TYPE(relocation->r_info);

    return relocation->r_offset % 8 == 0 &&
           (of_plt ? type == R_X86_64_JUMP_SLOT || type == R_X86_64_IRELATIVE
                   : type == R_X86_64_GLOB_DAT);
}

/* The name of symbol `index`, or NULL. */
const char *slot_symbol(const struct rimf_object *, uint32_t index, Elf64_Sym *);
/* Predicts the target of the slot with this symbol.  `has_filter`: an object is a filter. */
void slot_finish(struct mvld_image *, const struct rimf_object *, uint32_t index, int has_filter,
                 struct resolved *);

#endif
