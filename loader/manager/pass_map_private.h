/* SPDX-License-Identifier: MIT
 *
 * loader/manager/pass_map_private.h: a pass while it is mapped; for pass_map*.c.
 */
#ifndef LOADER_PASS_MAP_PRIVATE_H
#define LOADER_PASS_MAP_PRIVATE_H

#include "loader/manager/pass_map.h"
#include "rimf/elf/view.h"

#include <elf.h>

#define HEADERS_MAX 24u
#define SPAN_MAX (64UL << 20)
#define ALIGN_MAX (2UL << 20)

struct headers {
    Elf64_Ehdr e;
    Elf64_Phdr phdr[HEADERS_MAX];
};

struct mapping {
    const struct rimf_sys *sys;
    const struct why *why;
    const char *path;
    struct pass_object *out;
    uint64_t file_size;
    struct headers headers;
    const Elf64_Phdr *phdr; /* in headers */
    size_t n;
    const Elf64_Phdr *first;    /* PT_LOAD */
    size_t n_loads;
    uint64_t high, align; /* end of the last, as linked; the largest alignment */
    int holed;            /* there are pages between them */
    struct elf_view view; /* of the mapped pass */
};

/* Refuses the file's contents. */
#define REFUSE(m, ...) refuse_at((m)->why, ENOEXEC, (m)->path, 0, __VA_ARGS__)

/* pass_map_link.c: the steps after mapping: finds mvld_pass, relocates, protects RELRO. */
int pass_link(struct mapping *, uint64_t *symbol_size);

#endif
