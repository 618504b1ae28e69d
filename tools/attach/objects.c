/* SPDX-License-Identifier: MIT
 *
 * attach/objects.c: the objects of a process, by its host loader's list (DT_DEBUG, link.h).  A static program
 * is one object.
 */
#include "tools/attach/attach.h"
#include "tools/common/tools.h"

#include "rimf/elf/headers.h"

#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OBJECTS_MAX 100000 /* more mean a damaged list */
#define CHANGES_MS 3000    /* for which a list is waited for that the host loader is changing, as when a program starts */
#define PHDR_MAX 128       /* linkers write some dozen */
#define NOTES_MAX (1u << 20) /* the plugin writes 52 bytes a source file */

char *attach_string(const struct attach *a, uint64_t address)
{
    char text[4096];
    ssize_t n = address ? pread(a->memory, text, sizeof text - 1, (off_t)address) : 0;

    text[n > 0 ? n : 0] = 0;
    return must_print("%s", text);
}

static void add_object(struct attach *a, struct attach_object object)
{
    a->objects = must_grow(a->objects, a->n_objects + 1, sizeof *a->objects);
    a->objects[a->n_objects++] = object;
}

static void name_of_exe(const struct attach *a, char *to, size_t size)
{
    ssize_t n = readlinkat(a->folder, "exe", to, size - 1);

    to[n > 0 ? n : 0] = 0;
}

/* The value of DT_DEBUG, which the host loader writes into the executable's dynamic section; or 0. */
static uint64_t debug_of(const struct attach *a, uint64_t dynamic, uint64_t size)
{
    Elf64_Dyn entries[64];

    for (uint64_t i = 0, n; i + sizeof *entries <= size; i += n) {
        n = size - i < sizeof entries ? (size - i) & ~UINT64_C(15) : sizeof entries;
        if (attach_read(a, dynamic + i, entries, n))
            return 0;
        for (size_t at = 0; at < n / sizeof *entries && entries[at].d_tag != DT_NULL; at++)
            if (entries[at].d_tag == DT_DEBUG)
                return entries[at].d_un.d_ptr;
    }
    return 0;
}

/* The program headers of an object whose first mapping begins here: their number, or 0. */
static unsigned read_headers(const struct attach *a, uint64_t start, Elf64_Phdr phdr[PHDR_MAX], uint64_t *bias)
{
    Elf64_Ehdr header;

    if (attach_read(a, start, &header, sizeof header) || memcmp(header.e_ident, ELFMAG, SELFMAG) ||
        header.e_phnum > PHDR_MAX || attach_read(a, start + header.e_phoff, phdr, header.e_phnum * sizeof *phdr))
        return 0;
    *bias = start;
    for (unsigned i = header.e_phnum; i-- > 0;) /* the first PT_LOAD last */
        if (phdr[i].p_type == PT_LOAD)
            *bias = start - (phdr[i].p_vaddr - phdr[i].p_offset);
    return header.e_phnum;
}

static const Elf64_Phdr *dynamic_of(const Elf64_Phdr *phdr, unsigned n)
{
    while (n-- > 0)
        if (phdr[n].p_type == PT_DYNAMIC)
            return &phdr[n];
    return NULL;
}

/* Whether an object with ELF header and program headers begins here.  *debug: its r_debug, or 0. */
static int read_program(const struct attach *a, uint64_t start, struct attach_object *object, uint64_t *debug)
{
    Elf64_Phdr phdr[PHDR_MAX];
    unsigned n = read_headers(a, start, phdr, &object->bias);
    const Elf64_Phdr *dynamic = dynamic_of(phdr, n);

    object->start = start;
    object->dynamic = dynamic ? object->bias + dynamic->p_vaddr : 0;
    *debug = dynamic ? debug_of(a, object->dynamic, dynamic->p_memsz) : 0;
    return n ? 0 : -1;
}

/* The next mapping of a file's beginning: 0; or -1, behind the last one. */
static int next_beginning(FILE *maps, uint64_t *start, char path[4200])
{
    char line[4300];
    uint64_t offset;

    while (fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%*x %*s %lx %*s %*u %4199[^\n]", start, &offset, path) == 3 && !offset)
            return 0;
    return -1;
}

static FILE *open_maps(const struct attach *a)
{
    int fd = openat(a->folder, "maps", O_RDONLY | O_CLOEXEC);

    return fd < 0 ? NULL : fdopen(fd, "r");
}

static unsigned headers_at(const struct attach *a, uint64_t start, uint64_t dynamic, Elf64_Phdr phdr[PHDR_MAX],
                           uint64_t *bias)
{
    unsigned n = read_headers(a, start, phdr, bias);
    const Elf64_Phdr *found = dynamic_of(phdr, n);

    return dynamic == (found ? *bias + found->p_vaddr : 0) ? n : 0;
}

/* The program headers of an object: their number, or 0.  A library that was linked to begin at another address than 0
 * (prelink, -Ttext-segment) does not begin at its bias: then the header is found by the mappings. */
static unsigned headers_of(const struct attach *a, const struct attach_object *object, Elf64_Phdr phdr[PHDR_MAX],
                           uint64_t *bias)
{
    unsigned n = headers_at(a, object->start, object->dynamic, phdr, bias);
    FILE *maps = n ? NULL : open_maps(a);
    uint64_t start;
    char path[4200];

    while (!n && maps && !next_beginning(maps, &start, path))
        n = headers_at(a, start, object->dynamic, phdr, bias);
    if (maps)
        fclose(maps);
    return n;
}

int attach_has_note(const struct attach *a, const struct attach_object *object, const char *name, uint32_t type)
{
    Elf64_Phdr phdr[PHDR_MAX];
    uint64_t bias;
    int has = 0;

    for (unsigned n = headers_of(a, object, phdr, &bias); n-- > 0 && !has;) {
        size_t size = phdr[n].p_memsz < NOTES_MAX ? phdr[n].p_memsz : NOTES_MAX, desc_size;
        uint8_t *notes;

        if (phdr[n].p_type != PT_NOTE)
            continue;
        notes = must_alloc(size, 1);
        has = !attach_read(a, bias + phdr[n].p_vaddr, notes, size) &&
              elf_note_in(notes, size, phdr[n].p_align, name, type, &desc_size);
        free(notes);
    }
    return has;
}

/* Whether the kernel may execute its code, which an emulator only reads. */
static int is_executable(const struct attach *a, uint64_t start)
{
    Elf64_Phdr phdr[PHDR_MAX];
    uint64_t bias;

    for (unsigned n = read_headers(a, start, phdr, &bias); n-- > 0;)
        if (phdr[n].p_type == PT_LOAD && phdr[n].p_flags & PF_X)
            return attach_is_code(a, bias + phdr[n].p_vaddr);
    return 0;
}

/* The executable is the executed file; or, where that has no DT_DEBUG, another one that has: the kernel may have executed
 * a loader that runs it.  0, or -1. */
static int find_program(struct attach *a, const char *exe, struct attach_object *found, char path[4200], uint64_t *debug)
{
    struct attach_object executed = {0};
    uint64_t start;

    *debug = 0;
    for (int other = 0; other < 2 && !*debug; other++) {
        FILE *maps = attach_has_executed(a) ? NULL : open_maps(a); /* those of the new program do not fit the old memory */

        if (!maps)
            return attach_fail(a, "process %d has ended", a->pid);
        while (!*debug && !next_beginning(maps, &start, path)) {
            if ((strcmp(path, exe) != 0) != other || read_program(a, start, found, debug))
                continue;
            if (!other)
                executed = *found;
            else if (*debug && !is_executable(a, start))
                *debug = 0;
        }
        fclose(maps);
    }
    if (!*debug) {
        *found = executed;
        snprintf(path, 4200, "%s", exe);
    }
    return 0;
}

/* It has no host loader, which would fill in a DT_DEBUG.  While the kernel executes a program, it has no AT_ENTRY. */
static int is_static(const struct attach *a)
{
    return attach_auxiliary(a, AT_ENTRY) && !attach_auxiliary(a, AT_BASE);
}

static int add_program(struct attach *a, uint64_t until, uint64_t *debug)
{
    struct attach_object found = {0};
    char path[4200], exe[4096];
    int err;

    name_of_exe(a, exe, sizeof exe);
    do
        err = find_program(a, exe, &found, path, debug);
    while (!err && !*debug && !is_static(a) && clock_ns() < until && usleep(100) == 0);
    found.name = must_print("%s", path);
    add_object(a, found);
    return err;
}

void attach_path(const struct attach *a, const struct attach_object *object, char *to, size_t size)
{
    char exe[4096], path[4200];
    const char *name = object->name;
    FILE *maps = *name == '/' ? NULL : open_maps(a); /* its working folder may be another one by now */
    uint64_t start;

    while (maps && name != path && !next_beginning(maps, &start, path))
        if (start == object->start)
            name = path;
    if (maps)
        fclose(maps);
    name_of_exe(a, exe, sizeof exe);
    if (!strcmp(name, exe)) /* even if its name is another file's by now */
        snprintf(to, size, "/proc/%d/exe", a->pid);
    else
        snprintf(to, size, "/proc/%d/root%s", a->pid, name);
}

/* 2: this is its name; 1: up to a version; or 0. */
static int is_named(const struct attach_object *object, const char *name)
{
    const char *slash = strchr(name, '/') ? NULL : strrchr(object->name, '/');
    const char *own = slash ? slash + 1 : object->name;
    size_t length = strlen(name);

    return strncmp(own, name, length) != 0 ? 0 : !own[length] ? 2 : own[length] == '.';
}

size_t attach_all_named(const struct attach *a, const char *name, const struct attach_object **first)
{
    size_t n = 0;
    int best = 1;

    *first = NULL;
    for (size_t i = 0; i < a->n_objects; i++) {
        int is = is_named(&a->objects[i], name);

        if (is < best)
            continue;
        n = is > best ? 1 : n + 1;
        if (n == 1)
            *first = &a->objects[i];
        best = is;
    }
    return n;
}

const struct attach_object *attach_named(const struct attach *a, const char *name)
{
    const struct attach_object *first;

    attach_all_named(a, name, &first);
    return first;
}

int attach_objects(struct attach *a)
{
    uint64_t at, next, until = clock_ns() + CHANGES_MS * UINT64_C(1000000);
    struct r_debug debug;
    struct link_map map;
    int err;

    if (add_program(a, until, &at))
        return -1;
    do
        err = !at || attach_read(a, at, &debug, sizeof debug);
    while (!err && debug.r_state != RT_CONSISTENT && clock_ns() < until && usleep(100) == 0);
    if (!err) {
        size_t n = a->n_objects;

        for (next = (uint64_t)debug.r_map; next && a->n_objects < OBJECTS_MAX; next = (uint64_t)map.l_next) {
            if (attach_read(a, next, &map, sizeof map)) {
                if (clock_ns() >= until || attach_has_executed(a))
                    return attach_fail(a, "process %d: its host loader's list cannot be read", a->pid);
                a->n_objects = n; /* it changes: from its begin */
                map.l_next = debug.r_map;
                usleep(100);
                continue;
            }
            if ((uint64_t)map.l_ld != a->objects[0].dynamic)
                add_object(a, (struct attach_object){.name = attach_string(a, (uint64_t)map.l_name), .start = map.l_addr,
                                                     .bias = map.l_addr, .dynamic = (uint64_t)map.l_ld});
        }
    }
    return 0;
}
