/* SPDX-License-Identifier: MIT
 *
 * lines.c: see lines.h.  Only on request: the tools' own readers are fuzzed, this
 * one is elfutils'.
 */
#include "tools/common/lines.h"
#include "tools/common/tools.h"

#include <elfutils/libdw.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>

struct lines {
    Elf *elf;
    Dwarf *dwarf;
};

struct lines *lines_open(const struct elf_file *f)
{
    struct lines *l = must_alloc(1, sizeof *l);
    elf_version(EV_CURRENT);
    l->elf = elf_memory((char *)f->bytes, f->size);
    l->dwarf = l->elf ? dwarf_begin_elf(l->elf, DWARF_C_READ, NULL) : NULL;
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
    dwarf_end(l->dwarf);
    elf_end(l->elf);
    free(l);
}

void lines_find(struct lines *l, uint64_t address, char *to, size_t size)
{
    Dwarf_Die unit;
    Dwarf_Line *line = NULL;
    const char *file, *slash;
    int number;

    *to = 0;
    if (l && dwarf_addrdie(l->dwarf, address, &unit))
        line = dwarf_getsrc_die(&unit, address);
    file = line ? dwarf_linesrc(line, NULL, NULL) : NULL;
    if (!file || dwarf_lineno(line, &number))
        return;
    slash = strrchr(file, '/');
    snprintf(to, size, "%s:%d", slash ? slash + 1 : file, number);
}
