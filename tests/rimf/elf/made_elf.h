/* SPDX-License-Identifier: MIT
 *
 * tests/rimf/elf/made_elf.h: objects made in memory, one page each:
 *
 *     000  ELF header, program headers     R
 *     400  code                            R X
 *     800  dynamic section, RELRO to a00   RW
 *     a00  notes
 *     fff  end
 */
#ifndef TESTS_RIMF_MADE_ELF_H
#define TESTS_RIMF_MADE_ELF_H

#include "../../check.h"
#include "rimf/image/image.h"

#include <elf.h>
#include <sys/mman.h>

enum { MADE_CODE = 0x400, MADE_DATA = 0x800, MADE_NOTES = 0xa00, MADE_PAGE = 0x1000 };
enum { MADE_LOAD_R, MADE_LOAD_X, MADE_LOAD_W, MADE_DYNAMIC, MADE_RELRO, MADE_NOTE, MADE_PHNUM };

struct made {
    Elf64_Ehdr header;
    Elf64_Phdr phdr[MADE_PHNUM];
};

static inline void *made_pages(size_t n)
{
    void *at = mmap(NULL, n * MADE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                    0);

    CHECK(at != MAP_FAILED);
    return at;
}

static inline struct made *made_object(void *page)
{
    struct made *made = page;

    memset(page, 0, MADE_PAGE);
    made->header = (Elf64_Ehdr){
        .e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_DYN,
        .e_machine = EM_X86_64,
        .e_phoff = sizeof(Elf64_Ehdr),
        .e_phentsize = sizeof(Elf64_Phdr),
        .e_phnum = MADE_PHNUM,
    };
#define MADE(index, type, flags, from, to)                                             \
    made->phdr[index] = (Elf64_Phdr){.p_type = (type), .p_flags = (flags), .p_align = 8, \
        .p_offset = (from), .p_vaddr = (from), .p_filesz = (to) - (from),              \
        .p_memsz = (to) - (from)}
    MADE(MADE_LOAD_R, PT_LOAD, PF_R, 0, MADE_CODE);
    MADE(MADE_LOAD_X, PT_LOAD, PF_R | PF_X, MADE_CODE, MADE_DATA);
    MADE(MADE_LOAD_W, PT_LOAD, PF_R | PF_W, MADE_DATA, MADE_PAGE - 1);
    MADE(MADE_DYNAMIC, PT_DYNAMIC, PF_R | PF_W, MADE_DATA, MADE_DATA + 0x100);
    MADE(MADE_RELRO, PT_GNU_RELRO, PF_R, MADE_DATA, MADE_NOTES);
    MADE(MADE_NOTE, PT_NOTE, PF_R, MADE_NOTES, MADE_NOTES);
#undef MADE
    made->phdr[MADE_NOTE].p_align = 4;
    return made;
}

static inline struct rimf_source made_source(void *page, const char *name)
{
    return (struct rimf_source){
        .name = name,
        .bias = (uintptr_t)page,
        .dynamic = (char *)page + MADE_DATA,
        .link_map = page,
    };
}

#endif
