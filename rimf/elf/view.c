/* SPDX-License-Identifier: MIT
 *
 * rimf/elf/view.c: headers, segments, dynamic section.
 *
 * Finding the program headers.  The kernel gives those of the executable and the vDSO.  For other
 * objects the link map gives only bias and dynamic section.  Their ELF header is at the start of
 * their first PT_LOAD: at the bias if they are linked at 0, as nearly all are; otherwise (prelinked
 * objects, executables at a fixed address) somewhere before the dynamic section.  A page is a
 * header only if its program headers say that this very page is offset 0 and that the dynamic
 * section is the link map's.
 *
 * A page is read only if it is known to be readable.  Nearly always the dynamic section proves
 * this: tables that the host loader itself reads (hash, symbols, strings) are in the header's page.
 * Otherwise the kernel is asked, which is an exception, because it takes system calls that a filter
 * may not expect.
 */
#include "rimf/elf/view.h"

#include "rimf/elf/headers.h"

#include "rimf/base/base.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

#define SEARCH_PAGES 4096 /* 16 MiB before the dynamic section */

#define DYNAMIC_MAX 4096  /* entries, while the headers have not given the end */

/* mincore() tells whether a page is mapped.  It may still be PROT_NONE, so the kernel is made to
 * read 8 bytes there, as a signal set of an invalid operation. */
static int readable_page(const struct rimf_sys *sys, uintptr_t page)
{
    unsigned char in_core;

    if (SYS3(sys, SYS_mincore, page, RIMF_PAGE, &in_core) != 0)
        return 0;
    return SYS6(sys, SYS_rt_sigprocmask, -1, page, 0, 8, 0, 0) != -EFAULT;
}

/* Whether [at, at + size) is inside the page `known`, or otherwise readable. */
static int readable(const struct rimf_sys *sys, uintptr_t at, size_t size, uintptr_t known)
{
    uintptr_t end;

    if (__builtin_add_overflow(at, size, &end) || end > UINTPTR_MAX - RIMF_PAGE)
        return 0;
    for (uintptr_t page = rimf_page_down(at); page < end; page += RIMF_PAGE)
        if (page != known && !readable_page(sys, page))
            return 0;
    return 1;
}

int elf_readable(const struct rimf_sys *sys, uintptr_t at, size_t size)
{
    return readable(sys, at, size, 0);
}

/* Whether a table of the dynamic section is in the page at the bias. */
static int vouched_for(const struct rimf_source *source)
{
    const Elf64_Dyn *dynamic = source->dynamic;

    if ((uintptr_t)dynamic % 8 != 0)
        return 0;
    for (size_t i = 0; dynamic && i < DYNAMIC_MAX && dynamic[i].d_tag != DT_NULL; i++) {
        uint64_t value = dynamic[i].d_un.d_ptr;

        switch (dynamic[i].d_tag) {
        case DT_GNU_HASH:
        case DT_HASH:
        case DT_SYMTAB:
        case DT_STRTAB:
            if (value && (value < RIMF_PAGE || value - source->bias < RIMF_PAGE))
                return 1;
        }
    }
    return 0;
}

/* `at` is page-aligned and readable.  Sets phdr and phnum if there is an ELF header for this
 * machine. */
static int take_header(struct elf_view *view, const struct rimf_sys *sys, uintptr_t at)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)at;
    uintptr_t table;

    if (!elf_is_header(header) || header->e_phnum == 0 || header->e_phnum == PN_XNUM ||
        __builtin_add_overflow(at, header->e_phoff, &table) ||
        !readable(sys, table, header->e_phnum * sizeof(Elf64_Phdr), at))
        return 0;
    view->phdr = (const Elf64_Phdr *)table;
    view->phnum = header->e_phnum;
    return 1;
}

/* Whether the program headers describe an object whose header is at `at` and whose dynamic section
 * is the source's. */
static int fits(const struct elf_view *view, uintptr_t at, const void *dynamic)
{
    const Elf64_Phdr *found = elf_phdr_last(view->phdr, view->phnum, PT_DYNAMIC);
    const Elf64_Phdr *load = elf_phdr(view, PT_LOAD, 0);

    if (!load || view->bias + rimf_page_down(load->p_vaddr) != at)
        return 0;
    return found ? view->bias + found->p_vaddr == (uintptr_t)dynamic : !dynamic;
}

static int search_header(struct elf_view *view, const struct rimf_sys *sys,
                         const struct rimf_source *source)
{
    uintptr_t at = rimf_page_down((uintptr_t)source->dynamic);

    if (source->bias % RIMF_PAGE == 0 &&
        (vouched_for(source) || readable_page(sys, source->bias)) &&
        take_header(view, sys, source->bias) &&
        (!source->dynamic || fits(view, source->bias, source->dynamic)))
        return 1;
    for (size_t i = 0; i < SEARCH_PAGES && at > RIMF_PAGE; i++, at -= RIMF_PAGE)
        if (readable_page(sys, at) && take_header(view, sys, at) &&
            fits(view, at, source->dynamic))
            return 1;
    view->phdr = NULL;
    view->phnum = 0;
    return 0;
}

long elf_view_probe(struct elf_view *view, const struct rimf_sys *sys,
                    const struct rimf_source *source, const char **why)
{
    long loads = 0;

    memset(view, 0, sizeof *view);
    view->bias = source->bias;
    view->phdr = source->phdr;
    view->phnum = source->phnum;
    if (source->phdr) {
        if ((uintptr_t)source->phdr % 8 != 0 || source->phnum >= PN_XNUM) {
            *why = "its program headers are misplaced or too many";
            return -ENOEXEC;
        }
    } else if (!search_header(view, sys, source)) {
        *why = "its ELF header was not found";
        return -ENOENT;
    }
    while (elf_phdr(view, PT_LOAD, (size_t)loads))
        loads++;
    if (!loads) {
        *why = "it has no PT_LOAD";
        return -ENOEXEC;
    }
    return loads;
}

const Elf64_Phdr *elf_phdr(const struct elf_view *view, uint32_t type, size_t index)
{
    for (size_t i = 0; i < view->phnum; i++)
        if (view->phdr[i].p_type == type && index-- == 0)
            return &view->phdr[i];
    return NULL;
}

/* ---- segments ------------------------------------------------------------ */

/* The headers are read a second time here, and may have changed: `room` is the limit in any case. */
static int take_segments(struct elf_view *view, size_t room)
{
    uintptr_t last = 0;

    for (size_t i = 0; i < view->phnum && view->n_segments < room; i++) {
        const Elf64_Phdr *phdr = &view->phdr[i];
        uintptr_t start = view->bias + phdr->p_vaddr, end;

        if (phdr->p_type != PT_LOAD || phdr->p_memsz == 0)
            continue;
        if (__builtin_add_overflow(start, phdr->p_memsz, &end) || start < last)
            return -ENOEXEC;
        view->segments[view->n_segments++] =
            (struct mvld_segment){.start = start, .end = end, .prot = (uint32_t)elf_prot(phdr)};
        last = end;
    }
    return view->n_segments ? 0 : -ENOEXEC;
}

const struct mvld_segment *elf_segment_at(const struct elf_view *view, uintptr_t address)
{
    for (size_t i = 0; i < view->n_segments; i++)
        if (address >= view->segments[i].start && address < view->segments[i].end)
            return &view->segments[i];
    return NULL;
}

int elf_holds(const struct elf_view *view, uintptr_t address, size_t length, uint32_t prot)
{
    const struct mvld_segment *segment = elf_segment_at(view, address);

    return segment && length <= segment->end - address && (segment->prot & prot) == prot;
}

size_t elf_room(const struct elf_view *view, uintptr_t address)
{
    const struct mvld_segment *segment = elf_segment_at(view, address);

    return segment && segment->prot & PROT_READ ? segment->end - address : 0;
}

/* ---- dynamic section ------------------------------------------------------ */

/* The value of `tag`, or 0; DT_NULL, 0 and absent are treated alike. */
static uint64_t dynamic_value(const struct elf_view *view, int64_t tag)
{
    for (size_t i = 0; i < view->n_dynamic; i++)
        if (view->dynamic[i].d_tag == tag)
            return view->dynamic[i].d_un.d_val;
    return 0;
}

/* The address for `value` if at least `size` aligned, readable bytes are there; or 0. */
static uintptr_t address_at(const struct elf_view *view, uintptr_t value, size_t size,
                            size_t alignment)
{
    if (!value)
        return 0;
    if (!elf_room(view, value))
        value += view->bias;
    return elf_room(view, value) >= size && value % alignment == 0 ? value : 0;
}

/* The address that `tag` contains. */
static uintptr_t dynamic_address(const struct elf_view *view, int64_t tag, size_t size,
                                 size_t alignment)
{
    return address_at(view, dynamic_value(view, tag), size, alignment);
}

static size_t at_most(uint64_t want, size_t room)
{
    return want < room ? (size_t)want : room;
}

static const Elf64_Rela *take_relocations(const struct elf_view *view, int64_t tag,
                                          uint64_t bytes, const struct rimf_source *source,
                                          size_t *count)
{
    uintptr_t value = dynamic_value(view, tag), at;

    if (value - source->tables < source->tables_size)
        value += source->original_tables - source->tables;
    at = address_at(view, value, sizeof(Elf64_Rela), 8);
    *count = at ? at_most(bytes, elf_room(view, at)) / sizeof(Elf64_Rela) : 0;
    return (const Elf64_Rela *)at;
}

static void take_strings(struct elf_view *view)
{
    view->strings = (const char *)dynamic_address(view, DT_STRTAB, 1, 1);
    if (!view->strings)
        return;
    view->strings_size =
        at_most(dynamic_value(view, DT_STRSZ), elf_room(view, (uintptr_t)view->strings));
    while (view->strings_size && view->strings[view->strings_size - 1])
        view->strings_size--;
}

static void take_tables(struct elf_view *view, const struct rimf_source *source)
{
    uint64_t flags = dynamic_value(view, DT_FLAGS);
    uintptr_t relr;

    take_strings(view);
    view->symbols = (const Elf64_Sym *)dynamic_address(view, DT_SYMTAB, sizeof(Elf64_Sym), 8);
    if (view->symbols)
        view->symbols_limit = elf_room(view, (uintptr_t)view->symbols) / sizeof(Elf64_Sym);
    view->gnu_hash = (const uint32_t *)dynamic_address(view, DT_GNU_HASH, 16, 8);
    view->hash = (const uint32_t *)dynamic_address(view, DT_HASH, 8, 4);
    view->versym = (const uint16_t *)dynamic_address(view, DT_VERSYM, 2, 2);
    view->verdef = dynamic_address(view, DT_VERDEF, sizeof(Elf64_Verdef), 4);
    view->n_verdef = dynamic_value(view, DT_VERDEFNUM);
    view->verneed = dynamic_address(view, DT_VERNEED, sizeof(Elf64_Verneed), 4);
    view->n_verneed = dynamic_value(view, DT_VERNEEDNUM);
    if (dynamic_value(view, DT_PLTREL) == DT_RELA)
        view->plt_relocations = take_relocations(
            view, DT_JMPREL, dynamic_value(view, DT_PLTRELSZ), source, &view->n_plt_relocations);
    view->relocations = take_relocations(view, DT_RELA, dynamic_value(view, DT_RELASZ), source,
                                         &view->n_relocations);
    view->n_relative = at_most(dynamic_value(view, DT_RELACOUNT), view->n_relocations);
    relr = dynamic_address(view, DT_RELR, sizeof *view->relr, 8);
    view->relr = (const uint64_t *)relr;
    view->n_relr = relr ? at_most(dynamic_value(view, DT_RELRSZ), elf_room(view, relr)) /
                              sizeof *view->relr
                        : 0;
    view->symbolic = flags & DF_SYMBOLIC ? 1 : 0;
    view->text_relocations = flags & DF_TEXTREL ? 1 : 0;
    view->now = flags & DF_BIND_NOW || dynamic_value(view, DT_FLAGS_1) & DF_1_NOW;
    for (size_t i = 0; i < view->n_dynamic; i++) {
        if (view->dynamic[i].d_tag == DT_SYMBOLIC)
            view->symbolic = 1;
        if (view->dynamic[i].d_tag == DT_TEXTREL)
            view->text_relocations = 1;
        if (view->dynamic[i].d_tag == DT_BIND_NOW)
            view->now = 1;
        if (view->dynamic[i].d_tag == DT_FILTER || view->dynamic[i].d_tag == DT_AUXILIARY)
            view->filter = 1;
        if (view->dynamic[i].d_tag == DT_AUDIT || view->dynamic[i].d_tag == DT_DEPAUDIT)
            view->audit = 1;
    }
}

static int take_dynamic(struct elf_view *view, const struct rimf_source *source,
                        const char **why)
{
    const Elf64_Phdr *phdr = elf_phdr_last(view->phdr, view->phnum, PT_DYNAMIC);
    uintptr_t at = phdr ? view->bias + phdr->p_vaddr : 0;
    size_t limit;

    if (source->dynamic && (uintptr_t)source->dynamic != at) {
        *why = "its dynamic section is not where its program headers say";
        return -ENOEXEC;
    }
    if (!phdr)
        return 0;
    limit = at_most(phdr->p_memsz, elf_room(view, at)) / sizeof(Elf64_Dyn);
    if (!limit || at % 8 != 0) {
        *why = "its dynamic section lies outside its segments";
        return -ENOEXEC;
    }
    view->dynamic = (const Elf64_Dyn *)at;
    while (view->n_dynamic < limit && view->dynamic[view->n_dynamic].d_tag != DT_NULL)
        view->n_dynamic++;
    take_tables(view, source);
    return 0;
}

int elf_view_open(struct elf_view *view, const struct rimf_source *source,
                  struct mvld_segment *segments, size_t room, const char **why)
{
    view->segments = segments;
    view->n_segments = 0;
    if (take_segments(view, room)) {
        *why = "its PT_LOADs are empty, overlap, or are out of order";
        return -ENOEXEC;
    }
    return take_dynamic(view, source, why);
}

const char *elf_string(const struct elf_view *view, size_t offset)
{
    return offset < view->strings_size ? view->strings + offset : NULL;
}

size_t elf_relro(const struct elf_view *view, uintptr_t *start)
{
    const Elf64_Phdr *relro = elf_phdr_last(view->phdr, view->phnum, PT_GNU_RELRO);
    uintptr_t end;

    *start = 0;
    if (!relro)
        return 0;
    *start = rimf_page_down(view->bias + relro->p_vaddr);
    end = rimf_page_down(view->bias + relro->p_vaddr + relro->p_memsz);
    return end > *start ? end - *start : 0;
}

int elf_relr_each(const struct elf_view *view, int (*visit)(void *cookie, uintptr_t word), void *cookie)
{
    uintptr_t at = view->bias;
    int result = 0;

    for (size_t i = 0; i < view->n_relr && !result; i++) {
        uint64_t entry = view->relr[i];

        if (!(entry & 1)) {
            at = view->bias + entry;
            result = visit(cookie, at);
            at += sizeof entry;
            continue;
        }
        for (unsigned bit = 1; bit < 64 && !result; bit++)
            if (entry >> bit & 1)
                result = visit(cookie, at + (bit - 1) * sizeof entry);
        at += 63 * sizeof entry;
    }
    return result;
}
