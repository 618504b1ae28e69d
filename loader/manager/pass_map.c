/* SPDX-License-Identifier: MIT
 *
 * loader/manager/pass_map.c: maps a pass, like a very small ld.so.
 *
 * A pass is an ELF shared object without dependencies: no library, no symbol, no TLS, no constructor.  So
 * it can be mapped before the host loader has started.  Anything beyond that is refused by name, so that
 * its author knows which flag is missing.
 *
 *     read   header and program headers are read, not mapped, and judged
 *     map    one mapping of the whole span, then each PT_LOAD over it (rimf/elf/map.c)
 *     link   PT_DYNAMIC: symbols, RELATIVE and RELR, RELRO
 *     check  the declarations (pass_map_check.c)
 *
 * Every number comes from a file that may be damaged, and is checked before use.  Guaranteed: no access
 * outside of the pass, nothing mapped after a refusal, none of its code executed.  Not covered: a writer
 * who truncates the file while it is read; that is SIGBUS, as with any loader.
 */
#include "loader/manager/pass_map.h"
#include "rimf/base/base.h"
#include "rimf/base/cache.h"
#include "rimf/base/sys.h"
#include "rimf/elf/headers.h"
#include "rimf/elf/view.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define HEADERS_MAX 24u
#define SPAN_MAX (64UL << 20)
#define ALIGN_MAX (2UL << 20)

struct headers {
    Elf64_Ehdr e;
    Elf64_Phdr phdr[HEADERS_MAX];
};

/* A pass while it is mapped. */
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

uintptr_t pass_segment_end(const struct pass_object *o, uintptr_t address, uint32_t prot)
{
    for (size_t i = 0; i < o->n_segments; i++) {
        const struct mvld_segment *s = &o->segments[i];
        if (address >= s->start && address < s->end)
            return (s->prot & prot) == prot ? s->end : 0;
    }
    return 0;
}

int pass_holds(const struct pass_object *o, uintptr_t address, size_t length, uint32_t prot)
{
    uintptr_t end = pass_segment_end(o, address, prot);

    return end && length <= end - address;
}

/* ---- headers ------------------------------------------------------------------ */

static int read_headers(struct mapping *m, int fd)
{
    struct stat st;
    long got = SYS3(m->sys, SYS_fstat, fd, &st, 0);

    if (got)
        return refuse_at(m->why, BY_KERNEL, m->path, 0, "it cannot be looked at (error %ld)", -got);
    if (!S_ISREG(st.st_mode))
        return REFUSE(m, "this is no regular file");
    m->file_size = (uint64_t)st.st_size;
    file_id_of(&m->out->identity, &st);
    got = sys_pread(m->sys, fd, &m->headers, sizeof m->headers, 0);
    if (got < 0)
        return refuse_at(m->why, BY_KERNEL, m->path, 0, "it cannot be read (error %ld)", -got);
    m->phdr = elf_headers(&m->headers, (size_t)got, &m->n);
    if (!m->phdr)
        return REFUSE(m, "this is no 64-bit x86-64 ELF file with at most %u program headers, or it is truncated in them",
                      HEADERS_MAX);
    return m->headers.e.e_type == ET_DYN ? 0 : REFUSE(m, "this is no shared object (e_type %u)", m->headers.e.e_type);
}

static int judge_load(struct mapping *m, size_t i)
{
    const Elf64_Phdr *p = &m->phdr[i];

    if ((p->p_flags & PF_W) && (p->p_flags & PF_X))
        return REFUSE(m, "segment %zu is writable and executable", i);
    if (p->p_memsz > SPAN_MAX || p->p_vaddr > SPAN_MAX || p->p_filesz > p->p_memsz)
        return REFUSE(m, "segment %zu has an impossible size or address", i);
    if (p->p_offset > m->file_size || p->p_filesz > m->file_size - p->p_offset)
        return REFUSE(m, "the file is truncated: segment %zu reaches beyond its end", i);
    if (p->p_align > ALIGN_MAX || (p->p_align & (p->p_align - 1)))
        return REFUSE(m, "segment %zu has an impossible alignment", i);
    if ((p->p_vaddr - p->p_offset) % RIMF_PAGE)
        return REFUSE(m, "segment %zu cannot be mapped: address and offset do not agree", i);
    if (m->n_loads && rimf_page_down(p->p_vaddr) < rimf_page_up(m->high))
        return REFUSE(m, "segment %zu shares a page with the one before it, or comes too early",
                      i);
    if (p->p_memsz > p->p_filesz && !(p->p_flags & PF_W))
        return REFUSE(m, "segment %zu has memory that is neither in the file nor writable", i);
    if (m->n_loads == PASS_SEGMENTS_MAX)
        return REFUSE(m, "it has more than %u segments", PASS_SEGMENTS_MAX);
    if (!m->n_loads++)
        m->first = p;
    else
        m->holed |= rimf_page_down(p->p_vaddr) != rimf_page_up(m->high);
    m->high = p->p_vaddr + p->p_memsz;
    m->align = p->p_align > m->align ? p->p_align : m->align;
    return 0;
}

static int judge_headers(struct mapping *m)
{
    for (size_t i = 0; i < m->n; i++) {
        const Elf64_Phdr *p = &m->phdr[i];
        int error = 0;
        switch (p->p_type) {
        case PT_LOAD:
            if (p->p_memsz)
                error = judge_load(m, i);
            break;
        case PT_TLS:
            return REFUSE(m, "it has thread-local variables (PT_TLS), a pass can have none");
        case PT_INTERP:
            return REFUSE(m, "it is a program (PT_INTERP), not a pass");
        case PT_GNU_STACK:
            if (p->p_flags & PF_X)
                return REFUSE(m, "it asks for an executable stack");
            break;
        }
        if (error)
            return error;
    }
    if (!m->n_loads)
        return REFUSE(m, "it has nothing to load (no PT_LOAD)");
    if (!elf_phdr_last(m->phdr, m->n, PT_DYNAMIC))
        return REFUSE(m, "it has no dynamic section, so it is no shared object");
    return 0;
}

/* ---- mapping ------------------------------------------------------------------- */

/* Maps the whole span at once, so that nothing else is mapped inside: as the first segment, which saves a call at each
 * start, if the others cover the rest without a hole. */
static int map(struct mapping *m, int fd)
{
    struct pass_object *o = m->out;
    const Elf64_Phdr *as = m->holed || m->first->p_flags & PF_W || m->align > RIMF_PAGE ? NULL : m->first;
    uint64_t low = rimf_page_down(m->first->p_vaddr);
    size_t span = rimf_page_up(m->high) - low;
    long at;

    if (span > SPAN_MAX)
        return REFUSE(m, "it spans more than %lu MiB", SPAN_MAX >> 20);
    at = elf_reserve(m->sys, fd, as, low, span, m->align);
    if (!sys_failed(at)) {
        o->base = (uintptr_t)at - low;
        o->start = (uintptr_t)at;
        o->end = o->start + span;
    }
    for (size_t i = 0; i < m->n && !sys_failed(at); i++)
        if (m->phdr[i].p_type == PT_LOAD && m->phdr[i].p_memsz)
            at = elf_map_segment(m->sys, fd, o->base, &m->phdr[i], &m->phdr[i] == as);
    return sys_failed(at) ? refuse_at(m->why, BY_KERNEL, m->path, 0, "the kernel does not map it (error %ld)", -at) : 0;
}

/* ---- the dynamic section ------------------------------------------------------- */

/* rimf/elf reads the tables, within the pass's segments.  They may be in memory that relocation changes, in a damaged
 * file even in the tables themselves: so each entry is checked when it is used, never before. */

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

/* The steps after mapping: finds mvld_pass, relocates, protects RELRO. */
static int link_pass(struct mapping *m, uint64_t *symbol_size)
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

/* ---- all of it ----------------------------------------------------------------- */

int pass_map(const struct rimf_sys *sys, int fd, const char *path, const char *name,
             struct pass_object *out, const struct why *why)
{
    struct mapping m = {.sys = sys, .why = why, .path = path, .out = out, .align = RIMF_PAGE};
    uint64_t symbol_size = 0;
    int error;

    *out = (struct pass_object){.path = path};
    error = read_headers(&m, fd);
    if (!error)
        error = judge_headers(&m);
    if (!error)
        error = map(&m, fd);
    if (!error)
        error = link_pass(&m, &symbol_size);
    if (!error)
        error = pass_check(out, name, symbol_size, why);
    if (error)
        pass_unmap(sys, out);
    return error;
}

void pass_unmap(const struct rimf_sys *sys, struct pass_object *o)
{
    if (o->end)
        sys_munmap(sys, o->start, o->end - o->start);
    *o = (struct pass_object){.path = o->path};
}
