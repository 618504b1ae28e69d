/* SPDX-License-Identifier: MIT
 *
 * rimf/image_freeze_files.c: copies of files, with the code of this process in place of
 * theirs.
 */
#include "freeze.h"

#include "base.h"
#include "cache.h"

#include <errno.h> /* numbers only */
#include <fcntl.h> /* numbers only */

static int copy_file(const struct rimf_sys *sys, int from, int to, uint64_t size)
{
    if (!sys_file_may_reach(sys, size))
        return -EFBIG;
    while (size) {
        long n = SYS6(sys, SYS_copy_file_range, from, 0, to, 0, size, 0);

        if (n == -EXDEV || n == -EINVAL || n == -EOPNOTSUPP || n == -ENOSYS)
            n = SYS6(sys, SYS_sendfile, to, from, 0, size, 0, 0);
        if (n == -EINTR)
            continue;
        if (n <= 0)
            return n ? (int)n : -EIO; /* it became shorter */
        size -= (uint64_t)n;
    }
    return 0;
}

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

int freeze_finish(const struct rimf_sys *sys, int fd, struct sidecar_identity *out)
{
    struct stat st;
    int error = (int)SYS3(sys, SYS_fsync, fd, 0, 0);

    if (!error)
        error = (int)SYS3(sys, SYS_fstat, fd, &st, 0);
    if (!error)
        cache_identity(out, &st);
    return error;
}

/* The executable segments, as they are now, into the copy and into the table. */
static int write_texts(struct freeze *f, uint32_t index, int fd)
{
    const struct rimf_object *object = f->table->objects[index];
    const Elf64_Phdr *ph = object->public.phdr;
    int error = 0;

    for (size_t i = 0; i < object->public.phnum && !error; i++) {
        uint64_t start = rimf_page_down(ph[i].p_vaddr);
        struct frozen_text text = {
            .object = index,
            .linked = start,
            .size = rimf_page_up(ph[i].p_vaddr + ph[i].p_memsz) - start,
            .offset = rimf_page_down(ph[i].p_offset),
        };
        const void *pages = (const void *)(object->public.bias + start);

        if (ph[i].p_type != PT_LOAD || ph[i].p_flags != (PF_R | PF_X) ||
            ph[i].p_filesz != ph[i].p_memsz)
            continue;
        if (text.offset >= object->identity.size)
            return -ENOEXEC;
        text.hash = sidecar_hash(pages, text.size);
        error = freeze_write(f->image->sys, fd, pages,
                          text.size < object->identity.size - text.offset
                              ? text.size
                              : object->identity.size - text.offset,
                          text.offset);
        f->texts[f->header->n_texts++] = text;
    }
    return error;
}

static int same_file(const struct rimf_sys *sys, int fd, const struct sidecar_identity *identity)
{
    struct sidecar_identity now;
    struct stat st;

    if (SYS3(sys, SYS_fstat, fd, &st, 0))
        return 0;
    cache_identity(&now, &st);
    return sidecar_same_file(&now, identity);
}

int freeze_original(struct freeze *f, uint32_t index, uintptr_t linked, void *to, size_t size)
{
    const struct rimf_sys *sys = f->image->sys;
    const struct rimf_object *object = f->table->objects[index];
    const Elf64_Phdr *ph = object->public.phdr, *end = ph + object->public.phnum;
    long fd = sys_openat(sys, object->public.name, O_RDONLY | O_CLOEXEC, 0);
    int error = -ESTALE;

    while (ph < end && (ph->p_type != PT_LOAD || linked - rimf_page_down(ph->p_vaddr) >=
                                                     ph->p_filesz + ph->p_vaddr % RIMF_PAGE))
        ph++;
    if (sys_failed(fd))
        return (int)fd;
    if (ph < end && same_file(sys, (int)fd, &object->identity) &&
        sys_pread(sys, (int)fd, to, size,
                  rimf_page_down(ph->p_offset) + (linked - rimf_page_down(ph->p_vaddr))) ==
            (long)size)
        error = 0;
    sys_close(sys, (int)fd);
    return error;
}

static int fill_copy(struct freeze *f, uint32_t index, int from, int to)
{
    const struct rimf_sys *sys = f->image->sys;
    const struct rimf_object *object = f->table->objects[index];
    int error;

    if (!same_file(sys, from, &object->identity))
        return rimf_fail(f->image, ESTALE, "%s: the file there is not the one that was mapped",
                         object->public.name);
    error = copy_file(sys, from, to, object->identity.size);
    if (!error)
        error = write_texts(f, index, to);
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
