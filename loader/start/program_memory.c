/* SPDX-License-Identifier: MIT
 *
 * loader/start/program_memory.c: reads the program where the kernel has mapped it.
 *
 * Its program headers may be arbitrary: neither the kernel nor the host loader checks all of them.  So only
 * bytes in a PT_LOAD are read; of a type that should be unique the last one is used, as host loaders do.
 * Every start reads only what the host loader reads, too (the dynamic section, the names in it), or the
 * kernel (the interpreter).
 */
#include "loader/loader.h"

#include "loader/host/host.h"
#include "loader/process/block.h"
#include "loader/process/process.h"
#include "loader/start/start.h"
#include "loader/config/needed.h"

#include "rimf/elf/headers.h"
#include "rimf/elf/view.h"
#include "loader/manager/pipeline.h"

/* The segment that the kernel mapped last at this address (as linked), if it is readable. */
static const Elf64_Phdr *segment_at(const struct executable *p, uint64_t linked)
{
    const Elf64_Phdr *found = NULL;

    for (size_t i = 0; i < p->n; i++)
        if (p->ph[i].p_type == PT_LOAD &&
            linked - rimf_page_down(p->ph[i].p_vaddr) <
                rimf_page_up(p->ph[i].p_vaddr + p->ph[i].p_memsz) -
                    rimf_page_down(p->ph[i].p_vaddr))
            found = &p->ph[i];
    return found && found->p_flags & PF_R ? found : NULL;
}

/* The number of bytes from there to the end of the segment. */
static size_t room_at(const struct executable *p, uint64_t linked)
{
    const Elf64_Phdr *in = segment_at(p, linked);
    uint64_t end = in ? in->p_vaddr + in->p_memsz : 0;

    for (size_t i = 0; in && i < p->n; i++) /* segments that overlap it */
        if (p->ph[i].p_type == PT_LOAD && p->ph[i].p_vaddr > linked &&
            rimf_page_down(p->ph[i].p_vaddr) < end)
            end = rimf_page_down(p->ph[i].p_vaddr);
    return in && linked >= in->p_vaddr && linked < end ? end - linked : 0;
}

/* The string there, or NULL if it is not terminated. */
static const char *string_at(const struct executable *p, uint64_t linked)
{
    const char *string = (const char *)(p->bias + linked);

    for (size_t i = 0, room = room_at(p, linked); i < room; i++)
        if (!string[i])
            return string;
    return NULL;
}

/* AddressSanitizer ends a program if a library precedes its runtime. */
static int wants_to_be_first(const char *needed)
{
    return rimf_after(needed, "libasan.so") || rimf_after(needed, "libclang_rt.asan");
}

void program_needs(struct loader *l, const char *needed)
{
    if (musl_is_needed(needed))
        l->host->musl = 1;
    else if (wants_to_be_first(needed))
        l->injection->first = needed;
}

static void look_at_dynamic(struct loader *l, const struct executable *p, const Elf64_Phdr *at)
{
    const Elf64_Dyn *d = (const Elf64_Dyn *)(p->bias + at->p_vaddr);
    size_t n = room_at(p, at->p_vaddr) / sizeof *d;
    uint64_t strings = 0;

    for (size_t i = 0; i < n && d[i].d_tag != DT_NULL; i++)
        if (d[i].d_tag == DT_STRTAB)
            strings = d[i].d_un.d_ptr;
    for (size_t i = 0; i < n && d[i].d_tag != DT_NULL; i++) {
        const char *needed =
            d[i].d_tag == DT_NEEDED ? string_at(p, strings + d[i].d_un.d_val) : NULL;

        if (needed)
            program_needs(l, needed);
    }
}

/* The kernel has read it in the file; this is the same string. */
static const char *interpreter(const struct executable *p, const Elf64_Phdr *at)
{
    const Elf64_Phdr *in = segment_at(p, at->p_vaddr);

    return in && at->p_vaddr - in->p_vaddr == at->p_offset - in->p_offset
               ? string_at(p, at->p_vaddr)
               : NULL;
}

void program_look(struct loader *l)
{
    struct executable p = block_executable(l->block);
    const Elf64_Phdr *dynamic = elf_phdr_last(p.ph, p.n, PT_DYNAMIC);
    const Elf64_Phdr *interp = elf_phdr_last(p.ph, p.n, PT_INTERP);

    if (dynamic)
        look_at_dynamic(l, &p, dynamic);
    l->interpreter = interp ? interpreter(&p, interp) : NULL;
}

const uint8_t *program_build_id(const struct loader *l, size_t *size)
{
    struct executable p = block_executable(l->block);

    return elf_mapped_build_id(l->sys, p.ph, p.n, p.bias, size);
}
