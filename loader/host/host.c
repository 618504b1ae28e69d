/* SPDX-License-Identifier: MIT
 *
 * loader/host/host.c: finds the host loader and maps it as the kernel would.
 *
 * If mvld is installed in the place of ld.so, the host loader is beside it under a diverted name,
 * which is therefore tried first.  A program with an unusual interpreter tries it last, because
 * then mvld is that interpreter.  If mvld is mounted over ld.so, for a systemd unit
 * (tools/enable/unit.c), ld.so is mounted at a path of its own, which is tried after both.
 * The file must not be mvld itself, of this or another version, which would load itself for ever;
 * so every mvld has a note that identifies it.
 *
 * The file is mapped once over its whole length.  The rest behind the first segment is unmapped,
 * and the other segments are mapped there.  Text is mapped read-execute from the start, at its
 * offset in the file: profilers and valgrind read symbols from these mappings, and valgrind has
 * none if one is missing.
 */
#include "loader/loader.h"

#include "loader/host/host.h"
#include "loader/place/place.h"
#include "loader/process/process.h"
#include "rimf/elf/headers.h"

#include <errno.h>    /* numbers only */
#include <fcntl.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

#define HEAD 1536 /* contains the ELF header, program headers and notes */

/* Looks for the note of start/entry.S in the bytes read from the file. */
int host_is_ours(const void *head, size_t size)
{
    size_t version;

    return elf_head_note(head, size, "mvld", 1, &version) != NULL;
}

/* Checks everything that host_map and later code rely on. */
int host_parse(struct host *host, const void *head, size_t size, uint64_t *low, uint64_t *high,
               uint64_t *align)
{
    const Elf64_Ehdr *eh = head;
    size_t n;
    const Elf64_Phdr *ph = elf_headers(head, size, &n);
    uint64_t last = 0, dynamic_end = 0;
    int loads = 0, texts = 0, entered = 0;

    *low = 0;
    *align = RIMF_PAGE;
    if (!ph || eh->e_type != ET_DYN || !eh->e_entry)
        return -ENOEXEC;
    for (size_t i = 0; i < n; i++) {
        uint64_t end = ph[i].p_vaddr + ph[i].p_memsz;

        if (ph[i].p_type == PT_INTERP) /* a program, or an executable library */
            return -ENOEXEC;
        if (ph[i].p_type == PT_DYNAMIC)
            dynamic_end = end;
        if (ph[i].p_type != PT_LOAD)
            continue;
        if (ph[i].p_filesz > ph[i].p_memsz || end < ph[i].p_vaddr || end > 1ul << 40 ||
            ph[i].p_offset > 1ul << 40 || (ph[i].p_vaddr - ph[i].p_offset) % RIMF_PAGE ||
            (loads && rimf_page_down(ph[i].p_vaddr) < last) ||
            ((ph[i].p_flags & PF_X) && (ph[i].p_flags & PF_W)) || (!loads && ph[i].p_offset))
            return -ENOEXEC;
        if (!loads++)
            *low = rimf_page_down(ph[i].p_vaddr);
        texts += (ph[i].p_flags & PF_X) != 0;
        entered |= ph[i].p_flags & PF_X && eh->e_entry - ph[i].p_vaddr < ph[i].p_filesz;
        last = rimf_page_up(end);
        if (ph[i].p_align > *align && ph[i].p_align <= 1ul << 30 &&
            !(ph[i].p_align & (ph[i].p_align - 1)))
            *align = ph[i].p_align;
    }
    if (!loads || texts != 1 || !entered || !dynamic_end || dynamic_end > last ||
        eh->e_phoff + n * sizeof *ph > last)
        return -ENOEXEC;
    *high = last;
    host->phnum = n;
    return 0;
}

/* In the arena its text is far from ours, so it is mapped there only if the text has space for far jumps. */
static long reserve(const struct rimf_sys *sys, const struct host *host, const Elf64_Phdr *first, uint64_t low,
                    size_t span, uint64_t align, struct arena *arena)
{
    uintptr_t wanted = arena->end && align == RIMF_PAGE && host->tail ? place_take(arena, span) : 0;
    long at = wanted ? sys_mmap_at(sys, wanted, span, elf_prot(first), MAP_PRIVATE, host->fd,
                                   rimf_page_down(first->p_offset))
                     : -ENOMEM;

    return sys_failed(at) ? elf_reserve(sys, host->fd, align == RIMF_PAGE ? first : NULL, low, span, align) : at;
}

/* Unmaps the reservation except the first segment, as when the kernel maps a loader.  To split a
 * mapping for each of the other segments costs more, and nothing will be mapped between them. */
static void leave_room(const struct rimf_sys *sys, const struct host *host,
                       const Elf64_Phdr *first, uint64_t align)
{
    uintptr_t from = align > RIMF_PAGE ? host->start
                                       : rimf_page_up(host->bias + first->p_vaddr + first->p_filesz);

    if (from < host->end)
        sys_munmap(sys, from, host->end - from);
}

/* The linked address of free space for far jumps behind the text, in its last page; or 0. */
static uintptr_t find_tail(const Elf64_Phdr *ph, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uintptr_t tail = (ph[i].p_vaddr + ph[i].p_memsz + 15) & ~15ul;

        if (ph[i].p_type == PT_LOAD && (ph[i].p_flags & PF_X))
            return ph[i].p_memsz == ph[i].p_filesz && tail % RIMF_PAGE &&
                           RIMF_PAGE - tail % RIMF_PAGE >= FAR_JUMP * TEXT_PATCHES
                       ? tail
                       : 0;
    }
    return 0;
}

static void note_segments(struct host *host, const Elf64_Phdr *ph)
{
    for (size_t i = 0; i < host->phnum; i++) {
        uintptr_t start = host->bias + ph[i].p_vaddr, end = start + ph[i].p_memsz;

        if (ph[i].p_type == PT_DYNAMIC) {
            host->dynamic = (const void *)start;
        } else if (ph[i].p_type == PT_GNU_RELRO) {
            host->relro = start;
            host->relro_end = end;
        } else if (ph[i].p_type == PT_LOAD && (ph[i].p_flags & PF_X)) {
            host->text = rimf_page_down(start);
            host->text_end = rimf_page_up(start + ph[i].p_filesz);
            host->text_offset = rimf_page_down(ph[i].p_offset);
        } else if (ph[i].p_type == PT_LOAD && (ph[i].p_flags & PF_W)) {
            host->writable = start;
            host->writable_end = end;
        }
    }
}

/* host->fd was just opened.  After an error nothing is mapped. */
int host_map(const struct rimf_sys *sys, struct host *host, struct arena *arena)
{
    _Alignas(8) char head[HEAD];
    const Elf64_Phdr *ph, *first;
    uint64_t low, high, align;
    size_t span;
    long at, size = sys_read(sys, host->fd, head, sizeof head); /* not pread: not every host loader calls that */
    int err;

    if (size < 0)
        return (int)size;
    if (host_is_ours(head, (size_t)size))
        return -ELOOP;
    err = host_parse(host, head, (size_t)size, &low, &high, &align);
    if (err)
        return err;
    ph = elf_headers(head, (size_t)size, &host->phnum);
    span = high - low;
    host->tail = find_tail(ph, host->phnum);
    for (first = ph; first->p_type != PT_LOAD; first++)
        ;
    at = reserve(sys, host, first, low, span, align, arena);
    if (sys_failed(at))
        return -ENOMEM;
    host->start = (uintptr_t)at;
    host->end = host->start + span;
    host->bias = host->start - low;
    if (host->tail)
        host->tail += host->bias;
    host->entry = host->bias + ((const Elf64_Ehdr *)head)->e_entry;
    host->phdr = (const void *)(host->bias + ((const Elf64_Ehdr *)head)->e_phoff);
    leave_room(sys, host, first, align);
    for (const Elf64_Phdr *p = first; !err && p < ph + host->phnum; p++)
        if (p->p_type == PT_LOAD)
            err = elf_map_segment(sys, host->fd, host->bias, p, p == first && align == RIMF_PAGE);
    if (err) {
        sys_munmap(sys, host->start, span);
        return err;
    }
    note_segments(host, ph);
    return 0;
}

static size_t list_candidates(const struct loader *l, const char **candidates)
{
    int is_unusual = l->interpreter && !rimf_streq(l->interpreter, HOST_LOADER);
    size_t n = 0;

    if (l->host->musl) {
        candidates[n++] = HOST_LOADER_MUSL;
        return n;
    }
    if (l->knobs->host)
        candidates[n++] = l->knobs->host;
    candidates[n++] = is_unusual ? HOST_LOADER : HOST_LOADER_DIVERTED;
    candidates[n++] = is_unusual ? HOST_LOADER_DIVERTED : HOST_LOADER;
    candidates[n++] = HOST_LOADER_MOUNTED;
    return n;
}

static const char *reason(int err)
{
    switch (err) {
    case -ENOENT: return "does not exist";
    case -ELOOP: return "is mvld itself";
    case -ENOEXEC: return "is not an ELF loader";
    case -EACCES: return "may not be read";
    case -EMFILE:
    case -ENFILE: return "cannot be opened: too many open files";
    case -ENOMEM: return "cannot be mapped: out of memory";
    default: return "cannot be mapped";
    }
}

static int try_candidate(struct loader *l, const char *path)
{
    long fd = sys_openat(l->sys, path, O_RDONLY | O_CLOEXEC, 0);
    int err;

    if (sys_failed(fd))
        return (int)fd;
    l->host->fd = (int)fd;
    l->host->path = path;
    err = host_map(l->sys, l->host, l->arena);
    /* A named host loader may be a static program, which can be entered like a loader. */
    if (!err && path == l->knobs->host && !host_symbol(l->host, "_r_debug")) {
        sys_munmap(l->sys, l->host->start, l->host->end - l->host->start);
        err = -ENOEXEC;
    }
    if (err)
        sys_close(l->sys, (int)fd);
    else
        files_note(l, l->host->start, l->host->end - l->host->start, (int)fd);
    return err;
}

/* Maps the first candidate that is a host loader; host->fd stays open. */
int host_open(struct loader *l, int *errors)
{
    const char *candidates[HOST_CANDIDATES];
    size_t n = list_candidates(l, candidates);

    for (size_t i = 0; i < n; i++) {
        errors[i] = try_candidate(l, candidates[i]);
        if (!errors[i])
            return 0;
        rimf_log(&l->log, MVLD_LOG_FILES, "host loader: not %s: it %s", candidates[i],
                 reason(errors[i]));
    }
    return -ENOENT;
}

/* One sentence with the reason for each candidate. */
void host_explain(const struct loader *l, const int *errors, char *why, size_t size)
{
    const char *candidates[HOST_CANDIDATES];
    size_t n = list_candidates(l, candidates);
    size_t said = rimf_format(why, size, "mvld: found no host loader:");

    for (size_t i = 0; i < n && said < size; i++)
        said += rimf_format(why + said, size - said, " %s %s%s", candidates[i],
                            reason(errors[i]), i + 1 < n ? "," : "\n");
}
