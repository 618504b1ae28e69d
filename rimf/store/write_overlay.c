/* SPDX-License-Identifier: MIT
 *
 * rimf/store/write_overlay.c: overlays: copies of files, with this process's code in place of theirs.
 *
 * Each part is written by one call.  The kernel keeps data that is written at once in large pieces, if the
 * file system supports it (ext4 since Linux 6.16, XFS, btrfs), and since 6.18 a page fault in one of them
 * maps all of it.  So a text has pieces of its own, and starts have fewer faults.  copy_file_range makes
 * pieces of 64 KiB.  Data that is read from disk again comes in small ones.
 *
 * An fsync of each file before the next one is written would wait for a commit of the file system's journal each time,
 * and a large program has a hundred files.  So the kernel begins to write each to disk, and they are synced when all
 * are written: the first commit has the others in it.
 */
#include "rimf/store/writer.h"

#include "rimf/base/base.h"

#include <errno.h>    /* numbers only */
#include <fcntl.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

/* Writes the mapped part of the original that is not written yet, up to `end`. */
static int write_original(const struct rimf_sys *sys, int fd, const char *original,
                          uint64_t *written, uint64_t end)
{
    uint64_t at = *written;

    if (end <= at)
        return 0;
    *written = end;
    return cache_write_part(sys, fd, original + at, end - at, at);
}

/* Writes the original, with the present executable segments, which are also added to the table. */
static int write_parts(struct writer *w, const struct rimf_object *object, uint32_t number,
                       const char *original, int fd)
{
    const struct rimf_sys *sys = w->image->sys;
    const Elf64_Phdr *ph = object->public.phdr;
    uint64_t whole = object->file.id.size, written = 0, end;
    int error = 0;

    for (size_t i = 0; i < object->public.phnum && !error; i++) {
        uint64_t start = rimf_page_down(ph[i].p_vaddr);
        struct manifest_text text = {
            .object = number,
            .linked = start,
            .size = rimf_page_up(ph[i].p_vaddr + ph[i].p_memsz) - start,
            .offset = rimf_page_down(ph[i].p_offset),
        };
        const void *pages = (const void *)(object->public.bias + start);

        if (ph[i].p_type != PT_LOAD || ph[i].p_flags != (PF_R | PF_X) ||
            ph[i].p_filesz != ph[i].p_memsz)
            continue;
        if (text.offset >= whole)
            return -ENOEXEC;
        text.hash = rimf_hash(pages, text.size);
        error = write_original(sys, fd, original, &written, text.offset);
        end = text.size < whole - text.offset ? text.offset + text.size : whole;
        if (!error)
            error = cache_write_part(sys, fd, pages, end - text.offset, text.offset);
        written = end > written ? end : written; /* files may have segments in any order */
        w->texts[w->header->n_texts++] = text;
    }
    return error ? error : write_original(sys, fd, original, &written, whole);
}

/* Of an overlay the texts are mapped alone.  elfutils takes where the first mapping of a file lies for where its
 * first PT_LOAD does, so segments in front of the first text are none here.  Headers that are in a text stay. */
static int write_headers(const struct mvld_image *image, const struct rimf_object *object, const char *original, int fd)
{
    const Elf64_Ehdr *elf = (const Elf64_Ehdr *)original;
    const Elf64_Phdr *ph = object->public.phdr;
    const uint32_t none = PT_NULL;
    size_t first = 0;
    int error = 0;

    while (first < object->public.phnum && (ph[first].p_type != PT_LOAD || !(ph[first].p_flags & PF_X)))
        first++;
    if (first == object->public.phnum || elf->e_phnum != object->public.phnum ||
        elf->e_phoff + elf->e_phnum * sizeof *ph > rimf_page_down(ph[first].p_offset))
        return 0;
    for (size_t i = 0; i < first && !error; i++)
        if (ph[i].p_type == PT_LOAD)
            error = cache_write_part(image->sys, fd, &none, sizeof none, elf->e_phoff + i * sizeof *ph);
    return error;
}

static int is_file(const struct rimf_sys *sys, int fd, const struct file_id *identity)
{
    struct stat st;

    return !SYS3(sys, SYS_fstat, fd, &st, 0) && file_id_is(identity, &st);
}

static int say_unwritten(const struct writer *w, const char *path, int error)
{
    return error ? rimf_fail(w->image, -error, "%s: its overlay cannot be written%s (error %d)", path, write_full(error), -error)
                 : 0;
}

static int fill(struct writer *w, const struct rimf_object *object, uint32_t number, int from, int to)
{
    const struct rimf_sys *sys = w->image->sys;
    uint64_t size = object->file.id.size;
    long original;
    int error;

    if (!is_file(sys, from, &object->file.id))
        return rimf_fail(w->image, ESTALE, "%s: the file there is not the one that was mapped",
                         object->public.name);
    /* Only the kernel reads there: if the file becomes shorter, that is an error and no signal. */
    original = sys_mmap(sys, 0, size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, from, 0);
    error = sys_failed(original) ? (int)original
                                 : write_parts(w, object, number, (const char *)original, to);
    if (!error)
        error = write_headers(w->image, object, (const char *)original, to);
    if (!sys_failed(original))
        sys_munmap(sys, (uintptr_t)original, size);
    SYS6(sys, SYS_sync_file_range, to, 0, 0, SYNC_FILE_RANGE_WRITE, 0, 0);
    return say_unwritten(w, object->public.name, error);
}

int write_overlay(struct writer *w, const struct rimf_object *object, uint32_t number, const char *name)
{
    const struct rimf_sys *sys = w->image->sys;
    const char *path = object->public.name;
    long from = sys_openat(sys, path, O_RDONLY | O_CLOEXEC, 0), to;
    int error;

    if (sys_failed(from))
        return rimf_fail(w->image, (int)-from, "%s: it cannot be read (error %ld)", path, -from);
    to = cache_create(sys, w->folder, name);
    if (sys_failed(to)) {
        error = rimf_fail(w->image, (int)-to, "%s: its overlay cannot be made (error %ld)", path,
                          -to);
    } else {
        error = fill(w, object, number, (int)from, (int)to);
        sys_close(sys, (int)to);
    }
    sys_close(sys, (int)from);
    return error;
}

int write_finish_overlays(struct writer *w, uint32_t first)
{
    int error = 0;

    for (uint32_t i = first; i < w->header->n_objects && !error; i++)
        if (w->objects[i].overlay_name)
            error = say_unwritten(w, w->names + w->objects[i].name,
                                  write_finish(w, w->names + w->objects[i].overlay_name, &w->objects[i].overlay));
    return error;
}
