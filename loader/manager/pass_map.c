/* SPDX-License-Identifier: MIT
 *
 * loader/manager/pass_map.c: maps a pass, like a very small ld.so.
 *
 * A pass is an ELF shared object without dependencies: no library, no symbol, no TLS, no constructor.  So
 * it can be mapped before the host loader has started.  Anything beyond that is refused by name, so that
 * its author knows which flag is missing.
 *
 *     read   header and program headers are read, not mapped, and judged
 *     map    one mapping of the whole span, then each PT_LOAD over it
 *     link   PT_DYNAMIC: symbols, RELATIVE and RELR, RELRO (pass_map_link.c)
 *     check  the declarations (pass_map_check.c)
 *
 * Every number comes from a file that may be damaged, and is checked before use.  Guaranteed: no access
 * outside of the pass, nothing mapped after a refusal, none of its code executed.  Not covered: a writer
 * who truncates the file while it is read; that is SIGBUS, as with any loader.
 */
#include "loader/manager/pass_map_private.h"
#include "rimf/base/base.h"
#include "rimf/base/cache.h"
#include "rimf/base/sys.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>

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

static int judge_header(struct mapping *m, const Elf64_Ehdr *e)
{
    if (memcmp(e->e_ident, ELFMAG, SELFMAG) != 0)
        return REFUSE(m, "this is no ELF file");
    if (e->e_ident[EI_CLASS] != ELFCLASS64 || e->e_ident[EI_DATA] != ELFDATA2LSB ||
        e->e_machine != EM_X86_64)
        return REFUSE(m, "this is no 64-bit x86-64 object (class %u, machine %u)",
                      e->e_ident[EI_CLASS], e->e_machine);
    if (e->e_type != ET_DYN)
        return REFUSE(m, "this is no shared object (e_type %u)", e->e_type);
    if (e->e_phentsize != sizeof(Elf64_Phdr) || e->e_phnum == 0 || e->e_phnum > HEADERS_MAX)
        return REFUSE(m, "it has %u program headers of %u bytes, at most %u of %zu are read",
                      e->e_phnum, e->e_phentsize, HEADERS_MAX, sizeof(Elf64_Phdr));
    return 0;
}

/* Headers are nearly always adjacent: one read gets both. */
static int read_headers(struct mapping *m, int fd)
{
    struct headers *h = &m->headers;
    struct stat st;

    long failed = SYS3(m->sys, SYS_fstat, fd, &st, 0);

    if (failed)
        return refuse_at(m->why, BY_KERNEL, m->path, 0, "it cannot be looked at (error %ld)",
                         -failed);
    if (!S_ISREG(st.st_mode))
        return REFUSE(m, "this is no regular file");
    m->file_size = (uint64_t)st.st_size;
    file_id_of(&m->out->identity, &st);
    long got = sys_pread(m->sys, fd, h, sizeof(*h), 0);
    if (got < 0)
        return refuse_at(m->why, BY_KERNEL, m->path, 0, "it cannot be read (error %ld)", -got);
    if (got < (long)sizeof(h->e))
        return REFUSE(m, "the file is truncated in its headers");
    int error = judge_header(m, &h->e);
    if (error)
        return error;
    m->n = h->e.e_phnum;
    m->phdr = h->phdr;
    size_t size = m->n * sizeof(Elf64_Phdr);
    if ((h->e.e_phoff != sizeof(h->e) || got < (long)(sizeof(h->e) + size)) &&
        sys_pread(m->sys, fd, h->phdr, size, h->e.e_phoff) != (long)size)
        return REFUSE(m, "the file is truncated in its headers");
    return 0;
}

static int judge_load(struct mapping *m, size_t i, uint64_t *end)
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
    if (*end && rimf_page_down(p->p_vaddr) < rimf_page_up(*end))
        return REFUSE(m, "segment %zu shares a page with the one before it, or comes too early",
                      i);
    if (p->p_memsz > p->p_filesz && !(p->p_flags & PF_W))
        return REFUSE(m, "segment %zu has memory that is neither in the file nor writable", i);
    if (m->out->n_segments == PASS_SEGMENTS_MAX)
        return REFUSE(m, "it has more than %u segments", PASS_SEGMENTS_MAX);
    *end = p->p_vaddr + p->p_memsz;
    m->align = p->p_align > m->align ? p->p_align : m->align;
    m->out->segments[m->out->n_segments++] = (struct mvld_segment){
        p->p_vaddr, *end,
        (p->p_flags & PF_R ? PROT_READ : 0u) | (p->p_flags & PF_W ? PROT_WRITE : 0u) |
            (p->p_flags & PF_X ? PROT_EXEC : 0u)};
    return 0;
}

static int judge_headers(struct mapping *m)
{
    uint64_t end = 0;

    for (size_t i = 0; i < m->n; i++) {
        const Elf64_Phdr *p = &m->phdr[i];
        int error = 0;
        switch (p->p_type) {
        case PT_LOAD:
            if (p->p_memsz)
                error = judge_load(m, i, &end);
            break;
        case PT_DYNAMIC:
            m->dynamic = p;
            break;
        case PT_GNU_RELRO:
            m->relro = p;
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
    if (!m->out->n_segments)
        return REFUSE(m, "it has nothing to load (no PT_LOAD)");
    if (!m->dynamic)
        return REFUSE(m, "it has no dynamic section, so it is no shared object");
    return 0;
}

/* ---- mapping ------------------------------------------------------------------- */

/* The first PT_LOAD, if the others cover the rest of the span without a hole.  Then the span is mapped as
 * that segment, which saves a call at each start. */
static const Elf64_Phdr *first_of_closed(const struct mapping *m)
{
    const struct pass_object *o = m->out;
    const Elf64_Phdr *first = m->phdr;

    for (size_t i = 1; i < o->n_segments; i++)
        if (rimf_page_down(o->segments[i].start) != rimf_page_up(o->segments[i - 1].end))
            return NULL;
    while (first->p_type != PT_LOAD || !first->p_memsz)
        first++;
    return first->p_flags & PF_W || m->align > RIMF_PAGE ? NULL : first;
}

/* Maps the whole span at once, so that nothing else is mapped inside; linked address 0 gets the requested
 * alignment. */
static int reserve(struct mapping *m, int fd)
{
    struct pass_object *o = m->out;
    const Elf64_Phdr *as = m->as = first_of_closed(m);
    uint64_t first = rimf_page_down(o->segments[0].start);
    uint64_t length = rimf_page_up(o->segments[o->n_segments - 1].end) - first;
    uint64_t slack = m->align > RIMF_PAGE ? m->align : 0;

    if (length > SPAN_MAX)
        return REFUSE(m, "it spans more than %lu MiB", SPAN_MAX >> 20);
    long at = as ? sys_mmap(m->sys, 0, length, (int)o->segments[0].prot, MAP_PRIVATE, fd,
                            rimf_page_down(as->p_offset))
                 : sys_mmap(m->sys, 0, length + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                            0);
    if (sys_failed(at))
        return refuse_at(m->why, BY_KERNEL, m->path, 0, "the kernel does not map it (error %ld)",
                         -at);
    uint64_t base = (uint64_t)at - first;
    if (slack)
        base = (base + slack - 1) & ~(slack - 1);
    o->base = base;
    o->start = base + first;
    o->end = o->start + length;
    if (o->start > (uint64_t)at)
        sys_munmap(m->sys, (uintptr_t)at, o->start - (uint64_t)at);
    if ((uint64_t)at + length + slack > o->end)
        sys_munmap(m->sys, o->end, (uint64_t)at + length + slack - o->end);
    return 0;
}

static int map_segment(struct mapping *m, int fd, const Elf64_Phdr *p, struct mvld_segment *s)
{
    s->start = m->out->base + p->p_vaddr;
    s->end = s->start + p->p_memsz;
    uintptr_t start = rimf_page_down(s->start), file_end = s->start + p->p_filesz;
    int flags = MAP_PRIVATE | MAP_FIXED;
    long at = (long)start;

    /* Data is relocated at once: populating it is cheaper than two faults a page. */
    if ((s->prot & PROT_WRITE) && p->p_filesz <= POPULATE_MAX)
        flags |= MAP_POPULATE;
    if (p->p_filesz && p != m->as)
        at = sys_mmap(m->sys, start, file_end - start, (int)s->prot, flags, fd,
                      rimf_page_down(p->p_offset));
    if (!sys_failed(at) && p->p_memsz > p->p_filesz) {
        uintptr_t zero = p->p_filesz ? rimf_page_up(file_end) : start;
        if (p->p_filesz) /* the rest of the last page of the file */
            memset((void *)file_end, 0, zero - file_end);
        if (zero < rimf_page_up(s->end))
            at = sys_mmap(m->sys, zero, rimf_page_up(s->end) - zero, (int)s->prot,
                          MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0);
    }
    if (sys_failed(at))
        return refuse_at(m->why, BY_KERNEL, m->path, 0, "the kernel does not map it (error %ld)",
                         -at);
    return 0;
}

static int map_segments(struct mapping *m, int fd)
{
    size_t next = 0;

    for (size_t i = 0; i < m->n; i++) {
        if (m->phdr[i].p_type != PT_LOAD || !m->phdr[i].p_memsz)
            continue;
        int error = map_segment(m, fd, &m->phdr[i], &m->out->segments[next++]);
        if (error)
            return error;
    }
    return 0;
}

static int load(struct mapping *m, int fd, const char *name)
{
    uint64_t symbol_size = 0;
    int error = map_segments(m, fd);

    if (!error)
        error = pass_link(m, &symbol_size);
    return error ? error : pass_check(m->out, name, symbol_size, m->why);
}

int pass_map(const struct rimf_sys *sys, int fd, const char *path, const char *name,
             struct pass_object *out, const struct why *why)
{
    struct mapping m = {.sys = sys, .why = why, .path = path, .out = out, .align = RIMF_PAGE};
    int error;

    *out = (struct pass_object){.path = path};
    error = read_headers(&m, fd);
    if (!error)
        error = judge_headers(&m);
    if (!error)
        error = reserve(&m, fd);
    if (error)
        return error;
    error = load(&m, fd, name);
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
