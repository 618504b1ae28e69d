/* SPDX-License-Identifier: MIT
 *
 * rimf/elf/needed.c: reads DT_NEEDED of a file.
 */
#include "rimf/elf/headers.h"

#define DYNAMIC 64 /* limit on entries of a dynamic section */

/* A damaged file is not reported here: the host loader does that. */
void elf_needed_each(const struct rimf_sys *sys, int fd, const Elf64_Phdr *ph, size_t phnum,
                     void (*visit)(void *cookie, const char *name), void *cookie)
{
    Elf64_Dyn dynamic[DYNAMIC];
    uint64_t strings = 0, offset = 0;
    size_t n = 0;
    char needed[32];

    for (size_t i = 0; i < phnum; i++)
        if (ph[i].p_type == PT_DYNAMIC)
            n = (size_t)sys_pread(sys, fd, dynamic, sizeof dynamic, ph[i].p_offset);
    n = n <= sizeof dynamic ? n / sizeof *dynamic : 0;
    for (size_t i = 0; i < n && dynamic[i].d_tag != DT_NULL; i++)
        if (dynamic[i].d_tag == DT_STRTAB)
            strings = dynamic[i].d_un.d_ptr;
    for (size_t i = 0; i < phnum; i++)
        if (ph[i].p_type == PT_LOAD && strings - ph[i].p_vaddr < ph[i].p_filesz)
            offset = strings - ph[i].p_vaddr + ph[i].p_offset;
    for (size_t i = 0; offset && i < n && dynamic[i].d_tag != DT_NULL; i++) {
        memset(needed, 0, sizeof needed);
        if (dynamic[i].d_tag == DT_NEEDED &&
            sys_pread(sys, fd, needed, sizeof needed - 1, offset + dynamic[i].d_un.d_val) > 0)
            visit(cookie, needed);
    }
}
