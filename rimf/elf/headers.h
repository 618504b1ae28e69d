/* SPDX-License-Identifier: MIT
 *
 * rimf/elf/headers.h: the ELF header at the start of a file, or of what is mapped from it, and the program headers
 * behind it.  It is inline, so that a start with nothing configured finds it beside the code that asks.
 */
#ifndef RIMF_ELF_HEADERS_H
#define RIMF_ELF_HEADERS_H

#include <elf.h>
#include <stddef.h>
#include <string.h>

/* 1: it is the header of a file for this machine, with program headers as they should be, wherever these lie. */
static inline int elf_is_header(const Elf64_Ehdr *e)
{
    return memcmp(e->e_ident, ELFMAG, SELFMAG) == 0 && e->e_ident[EI_CLASS] == ELFCLASS64 &&
           e->e_ident[EI_DATA] == ELFDATA2LSB && e->e_machine == EM_X86_64 &&
           e->e_phentsize == sizeof(Elf64_Phdr) && e->e_phoff % 8 == 0;
}

/* The program headers, when all *n lie in the first `size` bytes, which are 8-aligned; else NULL, and *n is 0. */
static inline const Elf64_Phdr *elf_headers(const void *head, size_t size, size_t *n)
{
    const Elf64_Ehdr *e = (const Elf64_Ehdr *)head;

    *n = 0;
    if (size < sizeof *e || !elf_is_header(e) || e->e_phoff > size ||
        e->e_phnum > (size - e->e_phoff) / sizeof(Elf64_Phdr))
        return NULL;
    *n = e->e_phnum;
    return (const Elf64_Phdr *)((const char *)head + e->e_phoff);
}

#endif
