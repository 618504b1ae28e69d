/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/files.c: reads the linkers' symbol table (.symtab), which names local functions, too.  It is in
 * files that were not stripped and is not mapped.
 *
 * It is read from the file that the object was mapped from, identified by device, inode, size and time.  Its
 * numbers are checked against the file's size.
 */
#include "rimf/moved/symfile.h"

#include "rimf/base/base.h"
#include "rimf/base/cache.h"
#include "rimf/image/private.h"

#include <errno.h>    /* numbers only */
#include <fcntl.h>    /* numbers only */
#include <sys/stat.h> /* numbers only */

#define TABLE_MAX (64u << 20) /* limit for each table, since reading it delays the start */
#define SECTIONS_MAX 4096u

struct reading {
    struct mvld_image *image;
    int fd;
    uint64_t size; /* of the file */
};

/* Released by the caller; NULL: not there, or no memory. */
static void *read_part(const struct reading *r, uint64_t offset, uint64_t size)
{
    char *part;
    uint64_t done = 0;

    if (!size || size > TABLE_MAX || offset > r->size || size > r->size - offset)
        return NULL;
    part = rimf_heap_alloc(&r->image->heap, size);
    while (part && done < size) {
        long n = sys_pread(r->image->sys, r->fd, part + done, size - done, offset + done);

        if (n <= 0 && n != -EINTR) {
            rimf_heap_release(&r->image->heap, part);
            return NULL;
        }
        done += n > 0 ? (uint64_t)n : 0;
    }
    return part;
}

static void read_tables(const struct reading *r, const Elf64_Shdr *sections, size_t n,
                        struct file_symbols *out)
{
    for (size_t i = 0; i < n; i++) {
        const Elf64_Shdr *table = &sections[i];

        if (table->sh_type != SHT_SYMTAB || table->sh_link >= n)
            continue;
        out->names = read_part(r, sections[table->sh_link].sh_offset,
                               sections[table->sh_link].sh_size);
        out->symbols = out->names ? read_part(r, table->sh_offset, table->sh_size) : NULL;
        if (!out->symbols)
            return;
        out->n = table->sh_size / sizeof *out->symbols;
        out->names_size = sections[table->sh_link].sh_size;
        return;
    }
}

static void read_sections(const struct reading *r, struct file_symbols *out)
{
    Elf64_Ehdr *elf = read_part(r, 0, sizeof *elf);
    Elf64_Shdr *sections = NULL;

    if (elf && elf->e_ident[EI_CLASS] == ELFCLASS64 && elf->e_shentsize == sizeof *sections &&
        elf->e_shnum && elf->e_shnum <= SECTIONS_MAX)
        sections = read_part(r, elf->e_shoff, elf->e_shnum * sizeof *sections);
    if (sections)
        read_tables(r, sections, elf->e_shnum, out);
    rimf_heap_release(&r->image->heap, sections);
    rimf_heap_release(&r->image->heap, elf);
}

void file_symbols_read(struct mvld_image *image, const struct rimf_object *object,
                       struct file_symbols *out)
{
    long fd = object->file.known ? sys_openat(image->sys, object->public.name,
                                              O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0)
                                 : -ENOENT;
    struct stat st;

    *out = (struct file_symbols){0};
    if (sys_failed(fd))
        return;
    if (!SYS3(image->sys, SYS_fstat, fd, &st, 0)) {
        struct reading r = {image, (int)fd, (uint64_t)st.st_size};

        if (S_ISREG(st.st_mode) && file_id_is(&object->file.id, &st))
            read_sections(&r, out);
    }
    sys_close(image->sys, (int)fd);
}

const char *file_symbols_name(const struct file_symbols *symbols, size_t i)
{
    for (size_t at = symbols->symbols[i].st_name; at < symbols->names_size; at++)
        if (!symbols->names[at])
            return symbols->names + symbols->symbols[i].st_name;
    return NULL;
}

void file_symbols_release(struct mvld_image *image, struct file_symbols *symbols)
{
    rimf_heap_release(&image->heap, symbols->names);
    rimf_heap_release(&image->heap, symbols->symbols);
}
