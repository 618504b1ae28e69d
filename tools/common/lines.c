/* SPDX-License-Identifier: MIT
 *
 * lines.c: see lines.h.  Used only on request, because this reader is elfutils', which is not
 * fuzzed here.
 */
#include "tools/common/lines.h"
#include "tools/common/library.h"
#include "tools/common/tools.h"

#include <elfutils/libdw.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>

#define LIBELF(X) X(elf_version) X(elf_memory) X(elf_end)
#define LIBDW(X) X(dwarf_begin_elf) X(dwarf_end) X(dwarf_addrdie) X(dwarf_getsrc_die) X(dwarf_linesrc) X(dwarf_lineno)
static LIBRARY(LIBELF) libelf;
static LIBRARY(LIBDW) libdw;

struct lines {
    Elf *elf;
    Dwarf *dwarf;
};

struct lines *lines_open(const struct elf_file *f)
{
    if (LIBRARY_OPEN(libelf, "libelf.so.1", LIBELF) || LIBRARY_OPEN(libdw, "libdw.so.1", LIBDW))
        return NULL;

    struct lines *l = must_alloc(1, sizeof *l);
    libelf.elf_version(EV_CURRENT);
    l->elf = libelf.elf_memory((char *)f->bytes, f->size);
    l->dwarf = l->elf ? libdw.dwarf_begin_elf(l->elf, DWARF_C_READ, NULL) : NULL;
    if (!l->dwarf) {
        lines_close(l);
        return NULL;
    }
    return l;
}

void lines_close(struct lines *l)
{
    if (!l)
        return;
    libdw.dwarf_end(l->dwarf);
    libelf.elf_end(l->elf);
    free(l);
}

void lines_find(struct lines *l, uint64_t address, char *to, size_t size)
{
    Dwarf_Die unit;
    Dwarf_Line *line = NULL;
    const char *file, *slash;
    int number;

    *to = 0;
    if (l && libdw.dwarf_addrdie(l->dwarf, address, &unit))
        line = libdw.dwarf_getsrc_die(&unit, address);
    file = line ? libdw.dwarf_linesrc(line, NULL, NULL) : NULL;
    if (!file || libdw.dwarf_lineno(line, &number))
        return;
    slash = strrchr(file, '/');
    snprintf(to, size, "%s:%d", slash ? slash + 1 : file, number);
}
