/* SPDX-License-Identifier: MIT
 *
 * loader/manager/pass_map_link.c: the dynamic section of a mapped pass.
 *
 * Tables may be in memory that relocation changes, in a damaged file even in the tables themselves: so each
 * entry is checked when it is used, never before.
 */
#include "rimf/base/base.h"
#include "loader/manager/pass_map_private.h"
#include "rimf/base/sys.h"

#include <errno.h>
#include <sys/mman.h>

/* ---- the dynamic section --------------------------------------------------------- */

struct tables {
    uint64_t rela, rela_size, relr, relr_size;
    uint64_t symtab, strtab, strtab_size, hash, gnu_hash;
    uint64_t plt_size; /* size of the relocations for a PLT */
};

/* The table at linked address `at`, or NULL if it is not in the pass. */
static const void *table(const struct mapping *m, uint64_t at, uint64_t size)
{
    uintptr_t address = m->out->base + at;

    return at <= SPAN_MAX && size <= SPAN_MAX &&
                   pass_holds(m->out, address, size ? size : 1, PROT_READ)
               ? (const void *)address
               : NULL;
}

/* Refuses tags, or values of tags, that no pass may have. */
static int judge_tag(struct mapping *m, const Elf64_Dyn *d)
{
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
    case DT_RELAENT:
    case DT_SYMENT:
        return value == 24 ? 0 : REFUSE(m, "its relocations or symbols have a wrong size");
    case DT_RELRENT:
        return value == 8 ? 0 : REFUSE(m, "its RELR relocations have a wrong size");
    }
    return 0;
}

/* Where to store the table with that tag, or its size; NULL: not needed. */
static uint64_t *place_of_tag(struct tables *t, Elf64_Sxword tag)
{
    switch (tag) {
    case DT_RELA: return &t->rela;
    case DT_RELASZ: return &t->rela_size;
    case DT_RELR: return &t->relr;
    case DT_RELRSZ: return &t->relr_size;
    case DT_SYMTAB: return &t->symtab;
    case DT_STRTAB: return &t->strtab;
    case DT_STRSZ: return &t->strtab_size;
    case DT_HASH: return &t->hash;
    case DT_GNU_HASH: return &t->gnu_hash;
    case DT_PLTRELSZ: return &t->plt_size;
    default: return NULL;
    }
}

static int read_dynamic(struct mapping *m, struct tables *t)
{
    size_t n = m->dynamic->p_memsz / sizeof(Elf64_Dyn);
    const Elf64_Dyn *d = table(m, m->dynamic->p_vaddr, m->dynamic->p_memsz);

    if (!d || !n || m->dynamic->p_vaddr % 8)
        return REFUSE(m, "its dynamic section does not lie in a segment");
    for (size_t i = 0; i < n && d[i].d_tag != DT_NULL; i++) {
        uint64_t *place = place_of_tag(t, d[i].d_tag);
        int error = judge_tag(m, &d[i]);

        if (error)
            return error;
        if (place)
            *place = d[i].d_un.d_val;
    }
    return 0;
}

/* ---- relocation -------------------------------------------------------------------- */

/* Writes base + value at linked address `at`. */
static int relocate_word(struct mapping *m, uint64_t at, uint64_t value)
{
    uintptr_t address = m->out->base + at;

    if (at > SPAN_MAX || at % 8 || !pass_holds(m->out, address, 8, PROT_READ | PROT_WRITE))
        return REFUSE(m, "a relocation at 0x%lx is not in writable memory of the pass", at);
    if (value > SPAN_MAX || m->out->base + value < m->out->start ||
        m->out->base + value > m->out->end)
        return REFUSE(m, "the relocation at 0x%lx points outside the pass", at);
    *(uint64_t *)address = m->out->base + value;
    return 0;
}

static int apply_rela(struct mapping *m, const struct tables *t)
{
    size_t n = t->rela_size / sizeof(Elf64_Rela);
    const Elf64_Rela *r = table(m, t->rela, t->rela_size);

    if (n && (!r || t->rela % 8))
        return REFUSE(m, "its relocations (DT_RELA) do not lie in a segment");
    for (size_t i = 0; i < n; i++) {
        uint32_t type = ELF64_R_TYPE(r[i].r_info);
        int error = 0;
        if (type == R_X86_64_RELATIVE)
            error = relocate_word(m, r[i].r_offset, (uint64_t)r[i].r_addend);
        else if (type != R_X86_64_NONE)
            error = REFUSE(m, "it has a relocation of type %u at 0x%lx, only RELATIVE is allowed; "
                           "link it with -Wl,-Bsymbolic", type, r[i].r_offset);
        if (error)
            return error;
    }
    return 0;
}

/* RELR: an even word is an address, an odd one a bitmap of the 63 words behind. */
static int apply_relr(struct mapping *m, const struct tables *t)
{
    size_t n = t->relr_size / 8;
    const uint64_t *r = table(m, t->relr, t->relr_size);
    uint64_t next = 0;

    if (n && (!r || t->relr % 8))
        return REFUSE(m, "its relocations (DT_RELR) do not lie in a segment");
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = r[i] & 1 ? r[i] >> 1 : 1, at = r[i] & 1 ? next : r[i];
        for (uint64_t where = at; bits; bits >>= 1, where += 8) {
            if (!(bits & 1))
                continue;
            const uint64_t *word = table(m, where, 8);
            int error = relocate_word(m, where, word && where % 8 == 0 ? *word : 0);
            if (error)
                return error;
        }
        next = r[i] & 1 ? next + 63 * 8 : r[i] + 8;
    }
    return 0;
}

static int protect_relro(struct mapping *m)
{
    const Elf64_Phdr *p = m->relro;

    if (!p || !p->p_memsz)
        return 0;
    uintptr_t start = m->out->base + p->p_vaddr;
    if (p->p_vaddr > SPAN_MAX || p->p_memsz > SPAN_MAX ||
        rimf_page_up(start + p->p_memsz) > m->out->end || start < m->out->start)
        return REFUSE(m, "its RELRO range lies outside the pass");
    for (size_t i = 0; i < m->out->n_segments; i++) {
        const struct mvld_segment *s = &m->out->segments[i];
        uintptr_t from = rimf_page_down(start), to = rimf_page_down(start + p->p_memsz);
        if (!(s->prot & PROT_WRITE) || from < rimf_page_down(s->start) ||
            to > rimf_page_up(s->end) || from >= to)
            continue;
        long failed = sys_mprotect(m->sys, from, to - from, PROT_READ);
        if (failed)
            return refuse_at(m->why, BY_KERNEL, m->path, 0, "its RELRO cannot be protected");
    }
    return 0;
}

/* ---- symbols ------------------------------------------------------------------------ */

/* Only the hash tables tell the number of symbols. */
static int count_symbols(struct mapping *m, const struct tables *t, uint64_t *out)
{
    const uint32_t *hash = t->hash ? table(m, t->hash, 8) : NULL;

    if (hash && t->hash % 4 == 0) {
        *out = hash[1];
        return 0;
    }
    const uint32_t *gnu = t->gnu_hash ? table(m, t->gnu_hash, 16) : NULL;
    if (!gnu || t->gnu_hash % 4)
        return REFUSE(m, "it has no hash table of symbols (DT_GNU_HASH, DT_HASH)");
    uint64_t n_buckets = gnu[0], offset = gnu[1], bloom = gnu[2];
    uint64_t at = t->gnu_hash + 16 + bloom * 8;
    const uint32_t *buckets = table(m, at, n_buckets * 4);
    uint64_t last = 0, chains = at + n_buckets * 4;
    if (!buckets)
        return REFUSE(m, "its hash table of symbols is damaged");
    for (uint64_t i = 0; i < n_buckets; i++)
        last = buckets[i] > last ? buckets[i] : last;
    *out = offset;
    for (; last >= offset && last; last++) {
        const uint32_t *chain = table(m, chains + (last - offset) * 4, 4);
        if (!chain)
            return REFUSE(m, "its hash table of symbols is damaged");
        *out = last + 1;
        if (*chain & 1)
            break;
    }
    return 0;
}

/* The name, or NULL if it does not end inside the string table. */
static const char *symbol_name(const char *strings, uint64_t size, uint64_t at)
{
    for (uint64_t i = at; i < size; i++)
        if (!strings[i])
            return strings + at;
    return NULL;
}

static int find_pass(struct mapping *m, const struct tables *t, uint64_t *size)
{
    const char *strings = table(m, t->strtab, t->strtab_size);
    uint64_t n = 0;
    int error = count_symbols(m, t, &n);

    if (error)
        return error;
    const Elf64_Sym *symbols = n < SPAN_MAX ? table(m, t->symtab, n * sizeof(Elf64_Sym)) : NULL;
    if (!strings || !t->strtab_size || !symbols || t->symtab % 8)
        return REFUSE(m, "its symbol table does not lie in a segment");
    for (uint64_t i = 1; i < n; i++) {
        const Elf64_Sym *s = &symbols[i];
        const char *name = symbol_name(strings, t->strtab_size, s->st_name);
        if (!name)
            return REFUSE(m, "symbol %lu has a name outside the string table", i);
        if (s->st_shndx == SHN_UNDEF)
            return REFUSE(m, "it needs the symbol '%s', which a pass cannot get; link it with "
                          "-Wl,-z,defs to see where", name);
        if (!rimf_streq(name, "mvld_pass"))
            continue;
        uintptr_t address = m->out->base + s->st_value;
        if (ELF64_ST_TYPE(s->st_info) != STT_OBJECT || s->st_value > SPAN_MAX || address % 8 ||
            !pass_holds(m->out, address, 8, PROT_READ))
            return REFUSE(m, "its 'mvld_pass' is no variable inside it");
        m->out->pass = (const struct mvld_pass *)address;
        *size = s->st_size;
    }
    return m->out->pass ? 0 : REFUSE(m, "it does not define 'mvld_pass'");
}

int pass_link(struct mapping *m, uint64_t *symbol_size)
{
    struct tables t = {0};
    int error = read_dynamic(m, &t);

    if (!error)
        error = find_pass(m, &t, symbol_size);
    if (!error && t.plt_size) /* find_pass has named any undefined symbol */
        error = REFUSE(m, "it calls functions of its own through a PLT; link it with -Wl,-Bsymbolic");
    if (!error)
        error = apply_rela(m, &t);
    if (!error)
        error = apply_relr(m, &t);
    return error ? error : protect_relro(m);
}
