/* SPDX-License-Identifier: MIT
 *
 * rimf/store/freeze_files.c: copies of files, with the code of this process in place of
 * theirs.
 *
 * Each part is written by one call.  What is written at once the kernel keeps in large pieces,
 * where the file system lets it (ext4 since Linux 6.16, XFS, btrfs), and since 6.18 a page fault in
 * one of them maps all of it: so a text has pieces of its own, and starts have fewer faults.
 * copy_file_range makes pieces of 64 KiB.  What is read from disk again comes in small ones.
 */
#include "rimf/store/freeze.h"

#include "rimf/base/base.h"
#include "rimf/base/cache.h"

#include <errno.h>    /* numbers only */
#include <fcntl.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */
#include <sys/statfs.h>
#include <sys/statvfs.h> /* numbers only */

int freeze_write(const struct rimf_sys *sys, int fd, const void *from, size_t size, uint64_t at)
{
    const char *bytes = from;

    if (!sys_file_may_reach(sys, at + size))
        return -EFBIG;
    while (size) {
        long n = sys_pwrite(sys, fd, bytes, size, at);

        if (n == -EINTR)
            continue;
        if (n <= 0)
            return n ? (int)n : -EIO;
        bytes += n;
        size -= (size_t)n;
        at += (uint64_t)n;
    }
    return 0;
}

int freeze_whole(const struct rimf_sys *sys, int folder, const char *name, const void *bytes,
                 size_t size)
{
    long fd = SYS6(sys, SYS_openat, folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644, 0,
                   0);
    int error;

    if (sys_failed(fd))
        return (int)fd;
    error = freeze_write(sys, (int)fd, bytes, size, 0);
    if (!error)
        error = (int)SYS3(sys, SYS_fsync, fd, 0, 0);
    sys_close(sys, (int)fd);
    return error;
}

int freeze_finish(const struct rimf_sys *sys, int fd, struct file_id *out)
{
    struct stat st;
    int error = (int)SYS3(sys, SYS_fsync, fd, 0, 0);

    if (!error)
        error = (int)SYS3(sys, SYS_fstat, fd, &st, 0);
    if (!error)
        file_id_of(out, &st);
    return error;
}

int freeze_may_run(const struct rimf_sys *sys, int folder)
{
    struct statfs fs;

    return SYS3(sys, SYS_fstatfs, folder, &fs, 0) || !(fs.f_flags & ST_NOEXEC);
}

/* What is mapped of the original, as far as it is not written yet, up to `end`. */
static int write_original(const struct rimf_sys *sys, int fd, const char *original,
                          uint64_t *written, uint64_t end)
{
    uint64_t at = *written;

    if (end <= at)
        return 0;
    *written = end;
    return freeze_write(sys, fd, original + at, end - at, at);
}

/* The original, with the executable segments as they are now, which also go into the table. */
static int write_parts(struct freeze *f, uint32_t index, const char *original, int fd)
{
    const struct rimf_object *object = f->table->objects[index];
    const struct rimf_sys *sys = f->image->sys;
    const Elf64_Phdr *ph = object->public.phdr;
    uint64_t whole = object->identity.size, written = 0, end;
    int error = 0;

    for (size_t i = 0; i < object->public.phnum && !error; i++) {
        uint64_t start = rimf_page_down(ph[i].p_vaddr);
        struct frozen_text text = {
            .object = index,
            .linked = start,
            .size = rimf_page_up(ph[i].p_vaddr + ph[i].p_memsz) - start,
            .offset = rimf_page_down(ph[i].p_offset),
        };
        const void *pages = f->code_of ? f->code_of(f->cookie, &ph[i])
                                       : (const void *)(object->public.bias + start);

        if (ph[i].p_type != PT_LOAD || ph[i].p_flags != (PF_R | PF_X) ||
            ph[i].p_filesz != ph[i].p_memsz)
            continue;
        if (text.offset >= whole)
            return -ENOEXEC;
        text.hash = rimf_hash(pages, text.size);
        error = write_original(sys, fd, original, &written, text.offset);
        end = text.size < whole - text.offset ? text.offset + text.size : whole;
        if (!error)
            error = freeze_write(sys, fd, pages, end - text.offset, text.offset);
        written = end > written ? end : written; /* files may hold segments in any order */
        f->texts[f->header->n_texts++] = text;
    }
    return error ? error : write_original(sys, fd, original, &written, whole);
}

int freeze_is_file(const struct rimf_sys *sys, int fd, const struct file_id *identity)
{
    struct stat st;

    return !SYS3(sys, SYS_fstat, fd, &st, 0) && file_id_is(identity, &st);
}

static int fill_copy(struct freeze *f, uint32_t index, int from, int to)
{
    const struct rimf_sys *sys = f->image->sys;
    const struct rimf_object *object = f->table->objects[index];
    uint64_t size = object->identity.size;
    long original;
    int error;

    if (!freeze_is_file(sys, from, &object->identity))
        return rimf_fail(f->image, ESTALE, "%s: the file there is not the one that was mapped",
                         object->public.name);
    /* Only the kernel reads there: should the file become shorter, that is an error. */
    original = sys_mmap(sys, 0, size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, from, 0);
    error = sys_failed(original) ? (int)original
                                 : write_parts(f, index, (const char *)original, to);
    if (!sys_failed(original))
        sys_munmap(sys, (uintptr_t)original, size);
    if (!error)
        error = freeze_finish(sys, to, &f->objects[index].copy);
    return error ? rimf_fail(f->image, -error, "%s: its copy cannot be written (error %d)",
                             object->public.name, -error)
                 : 0;
}

int freeze_file(struct freeze *f, uint32_t index)
{
    const struct rimf_sys *sys = f->image->sys;
    const char *path = f->table->objects[index]->public.name;
    const char *name = f->names + f->objects[index].copy_name;
    long from = sys_openat(sys, path, O_RDONLY | O_CLOEXEC, 0), to;
    int error;

    if (sys_failed(from))
        return rimf_fail(f->image, (int)-from, "%s: it cannot be read (error %ld)", path, -from);
    to = SYS6(sys, SYS_openat, f->folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644, 0,
              0);
    if (sys_failed(to)) {
        error = rimf_fail(f->image, (int)-to, "%s: its copy cannot be made (error %ld)", path,
                          -to);
    } else {
        error = fill_copy(f, index, (int)from, (int)to);
        sys_close(sys, (int)to);
    }
    sys_close(sys, (int)from);
    return error;
}
