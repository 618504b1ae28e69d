/* SPDX-License-Identifier: MIT
 *
 * loader/manager/pass_map_private.h: a pass while it is mapped; for pass_map*.c.
 */
#ifndef LOADER_PASS_MAP_PRIVATE_H
#define LOADER_PASS_MAP_PRIVATE_H

#include "loader/manager/pass_map.h"

#include <elf.h>

#define HEADERS_MAX 32u
#define SPAN_MAX (64UL << 20)
#define ALIGN_MAX (2UL << 20)
#define POPULATE_MAX (64UL << 10)

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
    uint64_t align;
    const Elf64_Phdr *as; /* the segment as which the span was mapped, or NULL */
    const Elf64_Phdr *dynamic, *relro;
};

/* Refuses the file's contents. */
#define REFUSE(m, ...) refuse_at((m)->why, ENOEXEC, (m)->path, 0, __VA_ARGS__)

/* pass_map_link.c: the steps after mapping: finds mvld_pass, relocates, protects RELRO. */
int pass_link(struct mapping *, uint64_t *symbol_size);

#endif
