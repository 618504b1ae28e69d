/* SPDX-License-Identifier: MIT */
#ifndef MVLD_TESTS_NAMED_BY_H
#define MVLD_TESTS_NAMED_BY_H

#include <link.h>
#include <stdint.h>

static int holds_code(struct dl_phdr_info *info, size_t size, void *at)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

        if (ph->p_type == PT_LOAD && ph->p_flags & PF_X &&
            (uintptr_t)at - (info->dlpi_addr + ph->p_vaddr) < ph->p_memsz)
            return 1;
    }
    return 0;
}

/* What a field of a descriptor names: it leads to the function, or to a slot that holds its address. */
static void *named_by(const int32_t *field)
{
    char *at = (char *)field + *field;

    return dl_iterate_phdr(holds_code, at) ? at : *(void **)(void *)at;
}

#endif
