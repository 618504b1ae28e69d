/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/object.c: file, segments, dynamic section, build-id.
 */
#include "rimf/analyze/object.h"

#include "rimf/base/sys.h"
#include "rimf/elf/headers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(offsetof(struct object, all) + sizeof(((struct object *)0)->all) == offsetof(struct object, error),
               "all vectors");

#define SEGMENTS_MAX 64 /* linkers make four to ten */

int object_fail(struct object *o, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(o->error, sizeof o->error, format, args);
    va_end(args);
    return -1;
}

/* ---- addresses -------------------------------------------------------------------- */

const struct segment *object_segment(const struct object *o, uint64_t address)
{
    for (size_t i = 0; i < o->n_segments; i++)
        if (address >= o->segments[i].start && address < o->segments[i].end)
            return &o->segments[i];
    return NULL;
}

size_t object_room(const struct object *o, uint64_t address)
{
    const struct segment *s = object_segment(o, address);

    return s && address < s->file_end ? s->file_end - address : 0;
}

const uint8_t *object_at(const struct object *o, uint64_t address, uint64_t size)
{
    const struct segment *s = object_segment(o, address);

    if (!s || address > s->file_end || size > s->file_end - address)
        return NULL;
    return s->bytes + (address - s->start);
}

const Elf64_Phdr *object_phdr(const struct object *o, uint32_t type, size_t index)
{
    const Elf64_Phdr *phdr = (const Elf64_Phdr *)(o->file + o->header.e_phoff);

    for (size_t i = 0; i < o->header.e_phnum; i++)
        if (phdr[i].p_type == type && index-- == 0)
            return &phdr[i];
    return NULL;
}

const Elf64_Phdr *object_phdr_last(const struct object *o, uint32_t type)
{
    return elf_phdr_last((const Elf64_Phdr *)(o->file + o->header.e_phoff), o->header.e_phnum, type);
}

uint64_t object_tag(const struct object *o, int64_t tag)
{
    for (size_t i = 0; i < o->n_dynamic; i++)
        if (o->dynamic[i].d_tag == tag)
            return o->dynamic[i].d_un.d_val;
    return 0;
}

static int by_value(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

void sort_addresses(struct vector *v)
{
    uint32_t *at = v->at;
    size_t n = 0;

    if (!v->n)
        return;
    qsort(at, v->n, sizeof *at, by_value);
    for (size_t i = 0; i < v->n; i++)
        if (!n || at[i] != at[n - 1])
            at[n++] = at[i];
    v->n = n;
}

int has_address(const struct vector *v, uint64_t address)
{
    uint32_t key = (uint32_t)address;

    return v->n && address <= UINT32_MAX && bsearch(&key, v->at, v->n, sizeof key, by_value);
}

const Elf64_Shdr *object_sections(const struct object *o, size_t *n)
{
    const Elf64_Ehdr *h = &o->header;

    *n = 0;
    if (!h->e_shoff || h->e_shentsize != sizeof(Elf64_Shdr) || h->e_shoff % 8 != 0 ||
        h->e_shoff > o->size || h->e_shnum > (o->size - h->e_shoff) / sizeof(Elf64_Shdr))
        return NULL;
    *n = h->e_shnum;
    return (const Elf64_Shdr *)(o->file + h->e_shoff);
}

const char *object_section_names(const struct object *o, size_t *size)
{
    size_t n;
    const Elf64_Shdr *names = object_sections(o, &n);

    *size = 0;
    if (o->header.e_shstrndx >= n)
        return NULL;
    names += o->header.e_shstrndx;
    if (names->sh_offset > o->size || names->sh_size > o->size - names->sh_offset)
        return NULL;
    *size = names->sh_size;
    return (const char *)o->file + names->sh_offset;
}

int object_is_slot(const struct object *o, uint64_t address)
{
    return has_address(&o->slots, address);
}

/* ---- headers ------------------------------------------------------------------------ */

static int read_header(struct object *o)
{
    const Elf64_Ehdr *h = &o->header;

    if (o->size < sizeof *h || memcmp(o->file, ELFMAG, SELFMAG) != 0)
        return object_fail(o, "it is no ELF file");
    memcpy(&o->header, o->file, sizeof o->header);
    if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB ||
        h->e_machine != EM_X86_64)
        return object_fail(o, "it is not for x86-64");
    if (h->e_type != ET_EXEC && h->e_type != ET_DYN)
        return object_fail(o, "it is neither an executable nor a shared object");
    if (h->e_phentsize != sizeof(Elf64_Phdr) || h->e_phoff % 8 != 0 || h->e_phoff > o->size ||
        h->e_phnum > (o->size - h->e_phoff) / sizeof(Elf64_Phdr))
        return object_fail(o, "its program headers lie outside the file");
    if (h->e_type == ET_EXEC)
        o->flags |= ANALYSIS_FIXED;
    return 0;
}

static int take_segment(struct object *o, const Elf64_Phdr *p)
{
    struct segment *s = &o->segments[o->n_segments];
    uint64_t end;

    if (!p->p_memsz)
        return 0;
    if (__builtin_add_overflow(p->p_vaddr, p->p_memsz, &end) || end > UINT32_MAX)
        return object_fail(o, "it is linked above 4 GiB");
    if (p->p_filesz > p->p_memsz || p->p_offset > o->size || p->p_filesz > o->size - p->p_offset)
        return object_fail(o, "a segment of it lies outside the file");
    if (p->p_flags & PF_X && p->p_flags & PF_W)
        return object_fail(o, "its code is writable");
    if (o->n_segments && p->p_vaddr < s[-1].end)
        return object_fail(o, "its segments overlap, or are out of order");
    *s = (struct segment){(uint32_t)p->p_vaddr, (uint32_t)end,
                          (uint32_t)(p->p_vaddr + p->p_filesz), p->p_flags,
                          o->file + p->p_offset};
    o->n_segments++;
    return 0;
}

static int read_segments(struct object *o)
{
    const Elf64_Phdr *p;
    int executable = 0;

    o->segments = calloc(SEGMENTS_MAX, sizeof *o->segments);
    if (!o->segments)
        return object_fail(o, "there is no memory");
    for (size_t i = 0; (p = object_phdr(o, PT_LOAD, i)); i++) {
        if (i == SEGMENTS_MAX)
            return object_fail(o, "it has more segments than any linker makes");
        if (take_segment(o, p))
            return -1;
        executable |= p->p_flags & PF_X && p->p_filesz && p->p_memsz;
    }
    if (!executable)
        return object_fail(o, "it has no code");
    o->low = o->segments[0].start;
    o->high = o->segments[o->n_segments - 1].end;
    return 0;
}

static int read_dynamic(struct object *o)
{
    const Elf64_Phdr *p = object_phdr_last(o, PT_DYNAMIC);
    size_t n;

    if (!p)
        return 0; /* static */
    o->dynamic = (const Elf64_Dyn *)object_at(o, p->p_vaddr, p->p_filesz);
    if (!o->dynamic || (uintptr_t)o->dynamic % 8 != 0)
        return object_fail(o, "its dynamic section lies outside its segments");
    n = p->p_filesz / sizeof(Elf64_Dyn);
    while (o->n_dynamic < n && o->dynamic[o->n_dynamic].d_tag != DT_NULL)
        o->n_dynamic++;
    for (size_t i = 0; i < o->n_dynamic; i++)
        if (o->dynamic[i].d_tag == DT_TEXTREL ||
            (o->dynamic[i].d_tag == DT_FLAGS && o->dynamic[i].d_un.d_val & DF_TEXTREL))
            o->flags |= ANALYSIS_TEXTREL;
    return 0;
}

static void take_build_id(struct object *o)
{
    size_t size;
    const uint8_t *id = elf_head_note(o->file, o->size, "GNU", NT_GNU_BUILD_ID, &size);

    if (!id || size > sizeof o->build_id)
        return;
    memcpy(o->build_id, id, size);
    o->build_id_size = (uint32_t)size;
}

int object_parse(struct object *o, const uint8_t *bytes, size_t size)
{
    memset(o, 0, sizeof *o);
    o->file = bytes;
    o->size = size;
    if (read_header(o) || read_segments(o) || read_dynamic(o))
        return -1;
    take_build_id(o);
    return 0;
}

/* Before it is read.  Where that does not tell it from other files, whoever uses the analysis compares bytes. */
static struct file_id identify(int fd, const char *path, struct stat *st)
{
    struct file_id id;

    file_id_of(&id, st);
    if (file_id_unsettled(&rimf_sys_kernel, &id, path) || fstat(fd, st) || !file_id_is(&id, st))
        id = (struct file_id){.inode = 0};
    return id;
}

/* The kernel sets the breakpoints of its probes (uprobes) in private mappings of a file, not in shared ones, which some
 * file systems do not have. */
static void *map_file(int fd, size_t size)
{
    void *map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);

    return map == MAP_FAILED ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : map;
}

int object_open(struct object *o, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), failed;
    struct file_id identity;
    struct stat st;
    void *map;

    memset(o, 0, sizeof *o);
    if (fd < 0 || fstat(fd, &st)) {
        failed = object_fail(o, "%s", strerror(errno));
        if (fd >= 0)
            close(fd);
        return failed;
    }
    identity = identify(fd, path, &st);
    map = !S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(Elf64_Ehdr)
              ? MAP_FAILED
              : map_file(fd, (size_t)st.st_size);
    close(fd);
    if (map == MAP_FAILED)
        return object_fail(o, "it is no ELF file");
    failed = object_parse(o, map, (size_t)st.st_size);
    o->identity = identity;
    o->mapped = 1;
    return failed;
}

void object_close(struct object *o)
{
    if (o->mapped)
        munmap((void *)o->file, o->size);
    free(o->segments);
    vectors_free(o->all, RIMF_COUNT(o->all));
    o->file = NULL;
    o->mapped = 0;
    o->segments = NULL;
    o->n_segments = 0;
}

/* ---- code that is known by its address ---------------------------------------------------------
 *
 * Recognises objects whose code somebody identifies by its address, and
 * which would be confused by moved code.
 *
 * The kernel restarts an interrupted sequence (rseq) if the program counter is in a range that is described
 * by original addresses.  Moved code would be interrupted and never restarted.  Such sequences are found by
 * the signature before their abort handlers,
 *
 *     0f b9 3d 53 30 05 53     ud1 0x53053053(%rip),%edi
 *
 * or by the section with their descriptions.  Profilers are called with the address of the function, and
 * sanitizers report return addresses.  Every C library defines the profilers' functions: an object that
 * defines them does not use them.
 *
 * Code that calls dl_iterate_phdr may look there for the object of one of its own functions, as the JVM
 * does to find its home.  It may run elsewhere, but the addresses that it looks up must not change
 * (fixed.c).
 *
 * Code that has no such call may look in /proc/self/maps for the file of one of its own functions, as libvlccore
 * does to find its plugins, and gnulib's and BinReloc's code to find its data.  There moved code has no file, and
 * changed code that of the snapshot.
 */

static int begins_with(const char *name, const char *start)
{
    return !strncmp(name, start, strlen(start));
}

void object_take_name(struct object *o, const char *name, int imported)
{
    static const char *const profilers[] = {"mcount", "_mcount", "__fentry__",
                                            "__cyg_profile_func_enter"};
    static const char *const sanitizers[] = {"__sanitizer_", "__asan_", "__tsan_", "__msan_"};
    static const char *const restarts[] = {"__rseq_cs", "__start___rseq_cs",
                                           "__stop___rseq_cs"};

    for (size_t i = 0; imported && i < sizeof profilers / sizeof *profilers; i++)
        if (!strcmp(name, profilers[i]))
            o->flags |= ANALYSIS_PROFILED;
    if (imported && !strcmp(name, "dl_iterate_phdr"))
        o->locates = 1;
    if (!strcmp(name, "dl_iterate_phdr") || !strcmp(name, "dladdr"))
        o->asks = 1;
    for (size_t i = 0; i < sizeof sanitizers / sizeof *sanitizers; i++)
        if (begins_with(name, sanitizers[i]))
            o->flags |= ANALYSIS_PROFILED;
    for (size_t i = 0; i < sizeof restarts / sizeof *restarts; i++)
        if (begins_with(name, restarts[i]))
            o->flags |= ANALYSIS_RESTARTS;
}

static int has_restart_section(const struct object *o)
{
    size_t size;
    const char *names = object_section_names(o, &size);

    return size && memmem(names, size, "__rseq_cs", 9);
}

void object_find_restarts(struct object *o)
{
    static const char signature[] = "\x0f\xb9\x3d\x53\x30\x05\x53";

    for (size_t i = 0; i < o->n_segments; i++) {
        const struct segment *s = &o->segments[i];

        if (s->flags & PF_X &&
            memmem(s->bytes, s->file_end - s->start, signature, sizeof signature - 1))
            o->flags |= ANALYSIS_RESTARTS;
    }
    if (has_restart_section(o))
        o->flags |= ANALYSIS_RESTARTS;
}

/* It is called when object_take_name has seen all names. */
void object_find_maps(struct object *o)
{
    static const char path[] = "/proc/self/maps";

    for (size_t i = 0; i < o->n_segments && !o->asks; i++) {
        const struct segment *s = &o->segments[i];

        if (!(s->flags & PF_W) && memmem(s->bytes, s->file_end - s->start, path, sizeof path))
            o->flags |= ANALYSIS_MAPS;
    }
}
