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
#include "rimf/elf/headers.h"

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
        error = pass_link(&m, &symbol_size);
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
