/* SPDX-License-Identifier: MIT
 *
 * mvld/pass/objects.h: the tables of objects, symbols and sections.  Included by mvld/pass.h.
 */
#ifndef MVLD_PASS_OBJECTS_H
#define MVLD_PASS_OBJECTS_H

#include <stddef.h>
#include <stdint.h>

struct mvld_segment { /* one PT_LOAD, at its present address */
    uintptr_t start, end; /* [start, end), not rounded to pages */
    uint32_t prot;        /* PROT_READ | PROT_WRITE | PROT_EXEC as linked */
};

#define MVLD_OBJECT_MAIN 1u   /* the executable */
#define MVLD_OBJECT_VDSO 2u
#define MVLD_OBJECT_LOADER 4u /* the host loader */
#define MVLD_OBJECT_OPAQUE 8u /* its headers could not be read; see `why` */
#define MVLD_OBJECT_UNPLACED 16u /* a snapshot is being made, and the object's address differs at each start: no
                                  * code may contain a distance from or to it */

/* One ELF file in the process.  The fields do not change while it is loaded. */
struct mvld_object {
    uint32_t flags;          /* MVLD_OBJECT_* */
    const char *name;        /* the path by which the host loader found it, with links, in every stage
                              * ("/lib/x86_64-linux-gnu/libz.so.1"); of the executable its own path; never "" */
    uintptr_t bias;          /* run-time address minus linked address */
    uintptr_t start, end;    /* the span of its segments */
    const struct mvld_segment *segments;
    size_t n_segments;
    const void *dynamic;     /* Elf64_Dyn[], or NULL */
    const void *phdr;        /* Elf64_Phdr[], or NULL */
    size_t phnum;
    const uint8_t *build_id; /* or NULL */
    size_t build_id_size;
    const char *why;         /* why it must not be changed, or NULL */
    void *link_map;          /* struct link_map *, or NULL (the vDSO) */
};

struct mvld_symbol {
    const char *name;
    const char *version; /* or NULL */
    uintptr_t address;   /* present address; 0 for a thread-local symbol, which has no single address */
    uint64_t size;
    uint8_t type, binding, visibility; /* STT_, STB_, STV_ */
    const struct mvld_object *object;
};

#define MVLD_DOMAINS_MAX 256u   /* of a process (domain_add) */

enum mvld_section_kind {
    MVLD_SECTION_CODE = 1,
    MVLD_SECTION_DATA,
    MVLD_SECTION_RODATA,
    MVLD_SECTION_RELRO /* data that is read-only after relocation */
};

/* A part of an object of one kind, or memory that a pass added.  A mapped object has no section headers, so its
 * sections are its segments, with PT_GNU_RELRO as a section of its own. */
struct mvld_section {
    enum mvld_section_kind kind;
    uintptr_t linked;  /* address as linked; 0 for an added section */
    uintptr_t address; /* present address */
    size_t size;       /* bytes */
    uint32_t prot;     /* PROT_*, after relocation */
};
#define MVLD_SECTION_MAX (64ul << 20) /* bytes of an added section */
#define MVLD_FILE_MAX (16ul << 20)    /* bytes of a file that a pass reads (file_read) */
#define MVLD_SECTIONS_MAX 1024u       /* added by all passes */

#endif
