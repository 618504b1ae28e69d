/* SPDX-License-Identifier: MIT */
#include "rimf/elf/headers.h"

#include "rimf/base/base.h"

uintptr_t elf_load_end(const Elf64_Phdr *ph, size_t n)
{
    uintptr_t end = 0;

    for (size_t i = 0; i < n; i++)
        if (ph[i].p_type == PT_LOAD && ph[i].p_vaddr + ph[i].p_memsz > end)
            end = ph[i].p_vaddr + ph[i].p_memsz;
    return rimf_page_up(end);
}

long elf_reserve(const struct rimf_sys *sys, int fd, const Elf64_Phdr *as, uint64_t low, size_t span, uint64_t align)
{
    size_t length = as || align <= RIMF_PAGE ? span : span + align;
    long at = as ? sys_mmap(sys, 0, length, elf_prot(as), MAP_PRIVATE, fd, rimf_page_down(as->p_offset))
                 : sys_mmap(sys, 0, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uintptr_t start;

    if (sys_failed(at) || length == span)
        return at;
    start = (((uintptr_t)at - low + align - 1) & ~(align - 1)) + low;
    if (start > (uintptr_t)at)
        sys_munmap(sys, (uintptr_t)at, start - (uintptr_t)at);
    if ((uintptr_t)at + length > start + span)
        sys_munmap(sys, start + span, (uintptr_t)at + length - (start + span));
    return (long)start;
}

int elf_map_segment(const struct rimf_sys *sys, int fd, uintptr_t bias, const Elf64_Phdr *ph, int mapped)
{
    uintptr_t start = rimf_page_down(bias + ph->p_vaddr), file_end = bias + ph->p_vaddr + ph->p_filesz;
    uintptr_t zero = ph->p_filesz ? rimf_page_up(file_end) : start;
    uintptr_t end = rimf_page_up(bias + ph->p_vaddr + ph->p_memsz);
    int flags = MAP_PRIVATE | MAP_FIXED;
    long at = 0;

    /* Relocation writes all of it: populating it is cheaper than two faults a page. */
    if ((ph->p_flags & PF_W) && ph->p_filesz <= POPULATE_MAX)
        flags |= MAP_POPULATE;
    if (!mapped && zero > start)
        at = sys_mmap(sys, start, zero - start, elf_prot(ph), flags, fd, rimf_page_down(ph->p_offset));
    if (!sys_failed(at) && (ph->p_flags & PF_W) && ph->p_filesz && ph->p_memsz > ph->p_filesz)
        memset((void *)file_end, 0, zero - file_end);
    if (!sys_failed(at) && end > zero)
        at = sys_mmap(sys, zero, end - zero, elf_prot(ph), MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return sys_failed(at) ? (int)at : 0;
}
