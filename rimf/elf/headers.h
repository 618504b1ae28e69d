/* SPDX-License-Identifier: MIT
 *
 * rimf/elf/headers.h: the ELF header at the start of a file, or of what is mapped from it, and the program headers
 * behind it, which are inline, so that a start with nothing configured finds them beside the code that asks; notes of
 * files that nobody has a view of (notes.c), and the libraries that they need (needed.c); and mapping of segments, as
 * loaders do (map.c), with no memory of ours.
 */
#ifndef RIMF_ELF_HEADERS_H
#define RIMF_ELF_HEADERS_H

#include "rimf/base/base.h"
#include "rimf/base/sys.h"

#include <elf.h>
#include <sys/mman.h> /* numbers only */

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

/* The program header that is used of a type that should be unique: the last, as host loaders do; or
 * NULL. */
static inline const Elf64_Phdr *elf_phdr_last(const Elf64_Phdr *phdr, size_t n, uint32_t type)
{
    while (n-- > 0)
        if (phdr[n].p_type == type)
            return &phdr[n];
    return NULL;
}

/* The protection of a segment. */
static inline int elf_prot(const Elf64_Phdr *ph)
{
    return (ph->p_flags & PF_R ? PROT_READ : 0) | (ph->p_flags & PF_W ? PROT_WRITE : 0) |
           (ph->p_flags & PF_X ? PROT_EXEC : 0);
}

/* ---- notes.c ------------------------------------------------------------- */

/* The descriptor of such a note, and its size; or NULL.  In the content of a PT_NOTE with this p_align. */
const uint8_t *elf_note_in(const void *notes, size_t size, uint64_t alignment, const char *name, uint32_t type,
                           size_t *desc_size);
/* The same in the first `size` bytes of a file, where linkers put notes.
 * Nothing in them is trusted. */
const uint8_t *elf_head_note(const void *head, size_t size, const char *name, uint32_t type, size_t *desc_size);
/* The build-id of an object that is mapped with this bias, or NULL; the page with its program headers is mapped, and
 * the kernel is asked for others. */
const uint8_t *elf_mapped_build_id(const struct rimf_sys *, const Elf64_Phdr *, size_t n, uintptr_t bias, size_t *size);

/* ---- needed.c ------------------------------------------------------------ */

/* Visits the names (their first 31 bytes) in DT_NEEDED of a file with these program headers. */
void elf_needed_each(const struct rimf_sys *, int fd, const Elf64_Phdr *, size_t phnum,
                     void (*visit)(void *cookie, const char *name), void *cookie);
/* Whether a DT_NEEDED of this name is musl's libc: only that tells musl's programs, whose interpreter may be
 * ld-mvld.so.1. */
static inline int elf_is_musl(const char *needed)
{
    return rimf_streq(needed, "libc.so") || rimf_streq(needed, "libc.musl-x86_64.so.1");
}

/* ---- map.c --------------------------------------------------------------- */

/* Where the last segment ends, as linked; whole pages. */
uintptr_t elf_load_end(const Elf64_Phdr *, size_t n);

#define POPULATE_MAX (64ul << 10) /* data up to this size is populated when it is mapped */

/* Maps `span` bytes for an object whose first page is linked at `low`: as its segment `as`, or, with NULL, as a
 * reservation of aligned addresses.  Returns the address of that page, or negative errno. */
long elf_reserve(const struct rimf_sys *, int fd, const Elf64_Phdr *as, uint64_t low, size_t span, uint64_t align);
/* Maps one segment: the part of the file (unless it is `mapped`), the cleared rest of its last page, zero pages.  0,
 * or negative errno. */
int elf_map_segment(const struct rimf_sys *, int fd, uintptr_t bias, const Elf64_Phdr *, int mapped);

#endif
