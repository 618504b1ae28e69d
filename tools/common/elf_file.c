/* SPDX-License-Identifier: MIT
 *
 * elf_file.c: see elf_file.h.
 */
#include "tools/common/elf_file.h"
#include "rimf/base/base.h"
#include "tools/common/tools.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int elf_fail(struct elf_file *f, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(f->error, sizeof f->error, format, args);
    va_end(args);
    return -1;
}

static int inside(uint64_t offset, uint64_t size, uint64_t whole)
{
    return size <= whole && offset <= whole - size;
}

/* The whole file in memory: a mapping would raise SIGBUS if the file were truncated meanwhile. */
static int read_whole(struct elf_file *f)
{
    struct stat st;
    int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return elf_fail(f, "%s", strerror(errno));
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return elf_fail(f, "not a regular file");
    }
    f->read_from = st;
    f->bytes = must_alloc((size_t)st.st_size + 1, 1);
    while (f->size < (size_t)st.st_size) {
        ssize_t n = read(fd, f->bytes + f->size, (size_t)st.st_size - f->size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            int err = errno;
            close(fd);
            return elf_fail(f, "%s", strerror(err));
        }
        if (n == 0)
            break;
        f->size += (size_t)n;
    }
    close(fd);
    return 0;
}

static int read_headers(struct elf_file *f)
{
    const Elf64_Ehdr *h = &f->header;
    if (f->size < sizeof *h || memcmp(f->bytes, ELFMAG, SELFMAG))
        return elf_fail(f, "not an ELF file");
    memcpy(&f->header, f->bytes, sizeof f->header);
    if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB ||
        h->e_machine != EM_X86_64)
        return elf_fail(f, "not an ELF file for x86-64");
    if (h->e_type == ET_REL)
        return elf_fail(f, "a relocatable object: only linked files can be read");
    if (h->e_phnum && h->e_phentsize != sizeof(Elf64_Phdr))
        return elf_fail(f, "offset 0x36: program headers of %u bytes, not %zu", h->e_phentsize,
                        sizeof(Elf64_Phdr));
    if (!inside(h->e_phoff, (uint64_t)h->e_phnum * sizeof(Elf64_Phdr), f->size))
        return elf_fail(f, "offset 0x20: program headers lie outside the file");
    f->phnum = h->e_phnum;
    f->phdr = must_alloc(f->phnum, sizeof *f->phdr);
    memcpy(f->phdr, f->bytes + h->e_phoff, f->phnum * sizeof *f->phdr);
    for (size_t i = 0; i < f->phnum; i++) {
        const Elf64_Phdr *p = &f->phdr[i];
        if (p->p_type == PT_LOAD &&
            (!inside(p->p_offset, p->p_filesz, f->size) || p->p_filesz > p->p_memsz ||
             p->p_vaddr + p->p_memsz < p->p_vaddr))
            return elf_fail(f, "offset 0x%" PRIx64 ": a loadable segment lies outside the file",
                            h->e_phoff + i * sizeof *p);
    }
    return 0;
}

static const Elf64_Phdr *load_of(const struct elf_file *f, uint64_t address, uint64_t size)
{
    for (size_t i = 0; i < f->phnum; i++) {
        const Elf64_Phdr *p = &f->phdr[i];
        if (p->p_type == PT_LOAD && address >= p->p_vaddr &&
            inside(address - p->p_vaddr, size, p->p_memsz))
            return p;
    }
    return NULL;
}

int64_t elf_offset(const struct elf_file *f, uint64_t address)
{
    const Elf64_Phdr *p = load_of(f, address, 0);
    if (!p || address - p->p_vaddr > p->p_filesz)
        return -1;
    return (int64_t)(p->p_offset + (address - p->p_vaddr));
}

int elf_read(const struct elf_file *f, uint64_t address, void *to, size_t size)
{
    const Elf64_Phdr *p = load_of(f, address, size);
    if (!p || !inside(address - p->p_vaddr, size, p->p_filesz))
        return -1;
    memcpy(to, f->bytes + p->p_offset + (address - p->p_vaddr), size);
    return 0;
}

int elf_file_holds(const struct elf_file *f, uint64_t address, uint64_t size, uint32_t flags)
{
    const Elf64_Phdr *p = load_of(f, address, size);
    return p && (p->p_flags & flags) == flags;
}

const char *elf_file_string(const struct elf_file *f, uint64_t address, uint64_t end)
{
    const Elf64_Phdr *p = load_of(f, address, 1);
    if (!p || address >= end || address - p->p_vaddr >= p->p_filesz)
        return NULL;
    uint64_t room = p->p_filesz - (address - p->p_vaddr);
    if (end - address < room)
        room = end - address;
    const char *s = (const char *)f->bytes + p->p_offset + (address - p->p_vaddr);
    return memchr(s, 0, room) ? s : NULL;
}

/* ---- the dynamic section ---------------------------------------------------- */

static int by_offset(const void *a, const void *b)
{
    const Elf64_Rela *x = a, *y = b;
    return x->r_offset < y->r_offset ? -1 : x->r_offset > y->r_offset;
}

static int add_relocations(struct elf_file *f, uint64_t address, uint64_t size, const char *tag)
{
    size_t n = size / sizeof(Elf64_Rela);
    if (!n)
        return 0;
    if (size > f->size || !elf_file_holds(f, address, size, 0))
        return elf_fail(f, "%s: %" PRIu64 " bytes at address 0x%" PRIx64 " are not in the file",
                        tag, size, address);
    f->relocations = must_grow(f->relocations, f->n_relocations + n, sizeof(Elf64_Rela));
    if (elf_read(f, address, f->relocations + f->n_relocations, n * sizeof(Elf64_Rela)))
        return elf_fail(f, "%s: %" PRIu64 " bytes at address 0x%" PRIx64 " are not in the file",
                        tag, size, address);
    f->n_relocations += n;
    return 0;
}

static int read_dynamic(struct elf_file *f)
{
    const Elf64_Phdr *dynamic = NULL;
    uint64_t rela = 0, rela_size = 0, plt = 0, plt_size = 0;

    for (size_t i = 0; i < f->phnum; i++)
        if (f->phdr[i].p_type == PT_DYNAMIC)
            dynamic = &f->phdr[i];
    if (!dynamic)
        return 0; /* static */
    for (uint64_t i = 0; i < dynamic->p_filesz / sizeof(Elf64_Dyn); i++) {
        Elf64_Dyn d;
        if (elf_read(f, dynamic->p_vaddr + i * sizeof d, &d, sizeof d))
            return elf_fail(f, "the dynamic section ends outside the file");
        if (d.d_tag == DT_NULL)
            break;
        switch (d.d_tag) {
        case DT_RELA: rela = d.d_un.d_ptr; break;
        case DT_RELASZ: rela_size = d.d_un.d_val; break;
        case DT_JMPREL: plt = d.d_un.d_ptr; break;
        case DT_PLTRELSZ: plt_size = d.d_un.d_val; break;
        case DT_SYMTAB: f->symtab = d.d_un.d_ptr; break;
        case DT_STRTAB: f->strtab = d.d_un.d_ptr; break;
        case DT_STRSZ: f->strtab_size = d.d_un.d_val; break;
        case DT_VERSYM: f->versym = d.d_un.d_ptr; break;
        case DT_VERDEF: f->verdef = d.d_un.d_ptr; break;
        }
    }
    if (add_relocations(f, rela, rela_size, "DT_RELA") ||
        add_relocations(f, plt, plt_size, "DT_JMPREL"))
        return -1;
    if (f->n_relocations)
        qsort(f->relocations, f->n_relocations, sizeof(Elf64_Rela), by_offset);
    return 0;
}

/* A symbol of the dynamic symbol table. */
static int dynamic_symbol(const struct elf_file *f, uint32_t index, struct elf_target *out)
{
    Elf64_Sym sym;
    uint64_t end;
    if (!f->symtab || !f->strtab ||
        elf_read(f, f->symtab + (uint64_t)index * sizeof sym, &sym, sizeof sym))
        return -1;
    if (__builtin_add_overflow(f->strtab, f->strtab_size, &end))
        return -1;
    out->symbol = elf_file_string(f, f->strtab + sym.st_name, end);
    out->defined = sym.st_shndx != SHN_UNDEF;
    out->address = out->defined ? sym.st_value : 0;
    return out->symbol ? 0 : -1;
}

int elf_slot(const struct elf_file *f, uint64_t slot, struct elf_target *out)
{
    Elf64_Rela key = {.r_offset = slot}, *r = NULL;
    uint64_t content;

    *out = (struct elf_target){0};
    if (elf_read(f, slot, &content, sizeof content))
        return -1;
    if (f->n_relocations)
        r = bsearch(&key, f->relocations, f->n_relocations, sizeof key, by_offset);
    switch (r ? ELF64_R_TYPE(r->r_info) : R_X86_64_NONE) {
    case R_X86_64_GLOB_DAT:
    case R_X86_64_JUMP_SLOT:
    case R_X86_64_64:
        return dynamic_symbol(f, ELF64_R_SYM(r->r_info), out);
    case R_X86_64_RELATIVE:
    case R_X86_64_IRELATIVE:
        content = (uint64_t)r->r_addend;
        break;
    default: /* static, or DT_RELR: the addend is the content */
        break;
    }
    out->address = content;
    out->defined = content != 0;
    return 0;
}

/* ---- names of functions ------------------------------------------------------ */

static int by_address(const void *a, const void *b)
{
    const struct elf_symbol *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

static void add_functions(struct elf_file *f, const Elf64_Shdr *table, const Elf64_Shdr *strings)
{
    if (table->sh_entsize != sizeof(Elf64_Sym) ||
        !inside(table->sh_offset, table->sh_size, f->size) ||
        !inside(strings->sh_offset, strings->sh_size, f->size))
        return;
    size_t n = table->sh_size / sizeof(Elf64_Sym);
    f->functions = must_grow(f->functions, f->n_functions + n, sizeof *f->functions);
    for (size_t i = 0; i < n; i++) {
        Elf64_Sym sym;
        memcpy(&sym, f->bytes + table->sh_offset + i * sizeof sym, sizeof sym);
        int type = ELF64_ST_TYPE(sym.st_info);
        if ((type != STT_FUNC && type != STT_GNU_IFUNC) || sym.st_shndx == SHN_UNDEF ||
            sym.st_name >= strings->sh_size)
            continue;
        const char *name = (const char *)f->bytes + strings->sh_offset + sym.st_name;
        if (!memchr(name, 0, strings->sh_size - sym.st_name))
            continue;
        struct elf_symbol *s = &f->functions[f->n_functions++];
        *s = (struct elf_symbol){.address = sym.st_value, .size = sym.st_size, .name = name,
                                 .is_ifunc = type == STT_GNU_IFUNC};
        if (table->sh_type == SHT_DYNSYM && f->versym &&
            elf_read(f, f->versym + i * sizeof s->version, &s->version, sizeof s->version))
            s->version = 0;
    }
}

static void read_names(struct elf_file *f)
{
    const Elf64_Ehdr *h = &f->header;
    if (h->e_shentsize != sizeof(Elf64_Shdr) ||
        !inside(h->e_shoff, (uint64_t)h->e_shnum * sizeof(Elf64_Shdr), f->size))
        return;
    for (size_t i = 0; i < h->e_shnum; i++) {
        Elf64_Shdr table, strings;
        memcpy(&table, f->bytes + h->e_shoff + i * sizeof table, sizeof table);
        if ((table.sh_type != SHT_SYMTAB && table.sh_type != SHT_DYNSYM) ||
            table.sh_link >= h->e_shnum)
            continue;
        memcpy(&strings, f->bytes + h->e_shoff + table.sh_link * sizeof strings, sizeof strings);
        add_functions(f, &table, &strings);
    }
    if (f->n_functions)
        qsort(f->functions, f->n_functions, sizeof *f->functions, by_address);
}

#define HIDDEN 0x8000u

int elf_symbol_is_hidden(const struct elf_symbol *s)
{
    return (s->version & HIDDEN) != 0;
}

const char *elf_symbol_version(const struct elf_file *f, const struct elf_symbol *s)
{
    uint64_t at = f->verdef, end;
    Elf64_Verdef d = {.vd_next = 1};
    Elf64_Verdaux name;

    if (!at || __builtin_add_overflow(f->strtab, f->strtab_size, &end))
        return NULL;
    for (; d.vd_next && !elf_read(f, at, &d, sizeof d); at += d.vd_next)
        if (d.vd_ndx == (s->version & ~HIDDEN) && !(d.vd_flags & VER_FLG_BASE))
            return elf_read(f, at + d.vd_aux, &name, sizeof name) ? NULL
                                                                  : elf_file_string(f, f->strtab + name.vda_name, end);
    return NULL;
}

const struct elf_symbol *elf_function_at(const struct elf_file *f, uint64_t address)
{
    size_t begun = RIMF_BISECT(i, f->n_functions, f->functions[i].address <= address);

    for (size_t i = begun; i-- > 0 && begun - i < 16;) {
        const struct elf_symbol *s = &f->functions[i];
        if (address - s->address < s->size || address == s->address)
            return s;
    }
    return NULL;
}

/* ---- notes -------------------------------------------------------------------- */

int elf_notes(struct elf_file *f, const char *name, uint32_t type,
              int (*visit)(void *cookie, uint64_t desc, uint32_t size), void *cookie)
{
    size_t name_size = strlen(name) + 1;
    for (size_t i = 0; i < f->phnum; i++) {
        const Elf64_Phdr *p = &f->phdr[i];
        if (p->p_type != PT_NOTE)
            continue;
        /* Padding is 8 bytes only in segments with that alignment (GNU properties). */
        uint64_t align = p->p_align == 8 ? 8 : 4;
        for (uint64_t at = 0; p->p_filesz - at >= sizeof(Elf64_Nhdr);) {
            Elf64_Nhdr note;
            if (elf_read(f, p->p_vaddr + at, &note, sizeof note))
                return elf_fail(f, "offset 0x%" PRIx64 ": notes lie outside the file",
                                p->p_offset + at);
            uint64_t desc = sizeof note + ((note.n_namesz + 3ull) & ~3ull);
            desc = (desc + align - 1) & ~(align - 1);
            uint64_t next = (desc + note.n_descsz + align - 1) & ~(align - 1);
            if (desc + note.n_descsz > p->p_filesz - at)
                return elf_fail(f, "offset 0x%" PRIx64 ": a note is longer than its segment",
                                p->p_offset + at);
            const char *s = elf_file_string(f, p->p_vaddr + at + sizeof note, p->p_vaddr + at + desc);
            if (note.n_type == type && note.n_namesz == name_size && s && !strcmp(s, name)) {
                int result = visit(cookie, p->p_vaddr + at + desc, note.n_descsz);
                if (result)
                    return result;
            }
            if (next > p->p_filesz - at)
                break;
            at += next;
        }
    }
    return 0;
}

static int parse(struct elf_file *f)
{
    if (read_headers(f) || read_dynamic(f))
        return -1;
    read_names(f);
    return 0;
}

int elf_file_open(struct elf_file *f, const char *path)
{
    memset(f, 0, sizeof *f);
    f->path = path;
    return read_whole(f) ? -1 : parse(f);
}

int elf_file_parse(struct elf_file *f, const char *path, unsigned char *bytes, size_t size)
{
    memset(f, 0, sizeof *f);
    f->path = path;
    f->bytes = bytes;
    f->size = size;
    return parse(f);
}

void elf_file_close(struct elf_file *f)
{
    free(f->bytes);
    free(f->phdr);
    free(f->relocations);
    free(f->functions);
    f->bytes = NULL;
    f->phdr = NULL;
    f->relocations = NULL;
    f->functions = NULL;
}
