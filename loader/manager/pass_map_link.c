/* SPDX-License-Identifier: MIT
 *
 * loader/manager/pass_map_link.c: the dynamic section of a mapped pass.
 *
 * rimf/elf reads the tables, within the pass's segments.  They may be in memory that relocation changes, in a damaged
 * file even in the tables themselves: so each entry is checked when it is used, never before.
 */
#include "rimf/base/base.h"
#include "loader/manager/pass_map_private.h"
#include "rimf/base/sys.h"

#include <errno.h>
#include <sys/mman.h>

/* ---- symbols ------------------------------------------------------------------------ */

static int find_pass(struct mapping *m, uint64_t *size)
{
    const struct elf_view *view = &m->view;
    size_t n = elf_symbol_count(view);
    Elf64_Sym s;

    if (!view->symbols || !view->strings_size)
        return REFUSE(m, "its symbol table does not lie in a segment");
    if (!view->gnu_hash && !view->hash)
        return REFUSE(m, "it has no hash table of symbols (DT_GNU_HASH, DT_HASH)");
    if (!n || n == view->symbols_limit) /* in a file that is not damaged, something follows them */
        return REFUSE(m, "its hash table of symbols is damaged");
    for (size_t i = 1; i < n && !elf_symbol_at(view, i, &s); i++) {
        const char *name = elf_string(view, s.st_name);
        if (!name)
            return REFUSE(m, "symbol %zu has a name outside the string table", i);
        if (s.st_shndx == SHN_UNDEF)
            return REFUSE(m, "it needs the symbol '%s', which a pass cannot get; link it with "
                          "-Wl,-z,defs to see where", name);
        if (!rimf_streq(name, "mvld_pass"))
            continue;
        uintptr_t address = m->out->base + s.st_value;
        if (ELF64_ST_TYPE(s.st_info) != STT_OBJECT || address % 8 || !pass_holds(m->out, address, 8, PROT_READ))
            return REFUSE(m, "its 'mvld_pass' is no variable inside it");
        m->out->pass = (const struct mvld_pass *)address;
        *size = s.st_size;
    }
    return m->out->pass ? 0 : REFUSE(m, "it does not define 'mvld_pass'");
}

/* ---- the dynamic section --------------------------------------------------------- */

/* Refuses tags, or values of tags, that no pass may have, and tables that are not all in one segment. */
static int judge_tag(struct mapping *m, const Elf64_Dyn *d)
{
    const struct elf_view *view = &m->view;
    uint64_t value = d->d_un.d_val;

    switch (d->d_tag) {
    case DT_NEEDED:
        return REFUSE(m, "it needs another library (DT_NEEDED); link it with -nostdlib");
    case DT_INIT:
    case DT_FINI:
        return REFUSE(m, "it has a constructor or destructor (DT_INIT, DT_FINI)");
    case DT_INIT_ARRAYSZ:
    case DT_FINI_ARRAYSZ:
    case DT_PREINIT_ARRAYSZ:
        return value ? REFUSE(m, "it has constructors or destructors (DT_*_ARRAY)") : 0;
    case DT_TEXTREL:
    case DT_REL:
        return REFUSE(m, "it has relocations in its code; compile it with -fPIC");
    case DT_FLAGS:
        return value & DF_TEXTREL
                   ? REFUSE(m, "it has relocations in its code; compile it with -fPIC")
                   : 0;
    case DT_RELASZ:
        return value / sizeof *view->relocations == view->n_relocations
                   ? 0
                   : REFUSE(m, "its relocations (DT_RELA) do not lie in a segment");
    case DT_RELRSZ:
        return value / sizeof *view->relr == view->n_relr
                   ? 0
                   : REFUSE(m, "its relocations (DT_RELR) do not lie in a segment");
    case DT_PLTRELSZ:
        return value ? REFUSE(m, "it calls functions of its own through a PLT; link it with -Wl,-Bsymbolic") : 0;
    case DT_RELAENT:
    case DT_SYMENT:
        return value == 24 ? 0 : REFUSE(m, "its relocations or symbols have a wrong size");
    case DT_RELRENT:
        return value == 8 ? 0 : REFUSE(m, "its RELR relocations have a wrong size");
    }
    return 0;
}

/* ---- relocation -------------------------------------------------------------------- */

/* Makes the word that address, as linked. */
static int relocate_word(const struct mapping *m, uintptr_t word, uint64_t value)
{
    const struct pass_object *o = m->out;

    if (word % 8 || !pass_holds(o, word, 8, PROT_READ | PROT_WRITE))
        return REFUSE(m, "a relocation at 0x%lx is not in writable memory of the pass", word - o->base);
    if (value > SPAN_MAX || o->base + value < o->start || o->base + value > o->end)
        return REFUSE(m, "the relocation at 0x%lx points outside the pass", word - o->base);
    *(uint64_t *)word = o->base + value;
    return 0;
}

/* DT_RELR: the word has its address. */
static int relocate_in_place(void *mapping, uintptr_t word)
{
    const struct mapping *m = mapping;

    return relocate_word(m, word, word % 8 || !pass_holds(m->out, word, 8, PROT_READ) ? 0 : *(const uint64_t *)word);
}

static int relocate(struct mapping *m)
{
    const struct elf_view *view = &m->view;
    int error = 0;

    for (size_t i = 0; i < view->n_relocations && !error; i++) {
        Elf64_Rela r = view->relocations[i];
        uint32_t type = ELF64_R_TYPE(r.r_info);

        if (type == R_X86_64_RELATIVE)
            error = relocate_word(m, m->out->base + r.r_offset, (uint64_t)r.r_addend);
        else if (type != R_X86_64_NONE)
            error = REFUSE(m, "it has a relocation of type %u at 0x%lx, only RELATIVE is allowed; "
                           "link it with -Wl,-Bsymbolic", type, r.r_offset);
    }
    return error ? error : elf_relr_each(view, relocate_in_place, m);
}

static int protect_relro(struct mapping *m)
{
    const Elf64_Phdr *relro = elf_phdr_last(m->phdr, m->n, PT_GNU_RELRO);
    const struct mvld_segment *data = relro ? elf_segment_at(&m->view, m->out->base + relro->p_vaddr) : NULL;
    uintptr_t start;
    size_t size = elf_relro(&m->view, &start);

    if (size && (!data || !(data->prot & PROT_WRITE) || start < rimf_page_down(data->start) ||
                 size > rimf_page_up(data->end) - start))
        return REFUSE(m, "its RELRO range lies outside its data");
    if (size && sys_mprotect(m->sys, start, size, PROT_READ))
        return refuse_at(m->why, BY_KERNEL, m->path, 0, "its RELRO cannot be protected");
    return 0;
}

int pass_link(struct mapping *m, uint64_t *symbol_size)
{
    const struct rimf_source source = {.bias = m->out->base, .phdr = m->phdr, .phnum = m->n};
    struct elf_view *view = &m->view;
    const char *wrong;
    int error;

    *view = (struct elf_view){.bias = source.bias, .phdr = source.phdr, .phnum = source.phnum};
    if (elf_view_open(view, &source, m->out->segments, PASS_SEGMENTS_MAX, &wrong))
        return REFUSE(m, "%s", wrong);
    m->out->n_segments = view->n_segments;
    error = find_pass(m, symbol_size); /* first, as it names an undefined symbol */
    for (size_t i = 0; i < view->n_dynamic && !error; i++)
        error = judge_tag(m, &view->dynamic[i]);
    if (!error)
        error = relocate(m);
    return error ? error : protect_relro(m);
}
