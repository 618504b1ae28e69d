/* SPDX-License-Identifier: MIT
 *
 * rimf/store/frozen_file.c: opening a frozen image, and removing one.
 */
#include "rimf/store/frozen.h"

#include "rimf/base/base.h"
#include "rimf/base/cache.h"
#include "rimf/store/later.h"
#include "rimf/base/sys.h"

#include <errno.h> /* numbers only */
#include <fcntl.h> /* numbers only */
#include <sys/mman.h> /* numbers only */

int frozen_map(struct frozen_file *file, const struct rimf_sys *sys, const char *folder,
               uint32_t user, const char **why)
{
    struct stat st;
    long fd = cache_open(sys, AT_FDCWD, folder, S_IFDIR, user, &st, why);
    int error;

    *file = (struct frozen_file){.folder = -1, .user = user};
    if (sys_failed(fd))
        return (int)fd;
    file->folder = (int)fd;
    error = cache_map(sys, file->folder, "image", user, sizeof(struct frozen_header),
                      FROZEN_SIZE_MAX, &file->map, &file->size, why);
    if (!error)
        error = frozen_open(&file->view, file->map, file->size, why);
    if (error)
        frozen_unmap(file, sys);
    return error;
}

long frozen_open_part(const struct frozen_file *file, const struct rimf_sys *sys, const char *name,
                      const struct file_id *written, const char **why)
{
    struct stat st;
    long fd = cache_open(sys, file->folder, name, S_IFREG, file->user, &st, why);

    if (sys_failed(fd) || file_id_is_own(written, &st))
        return fd;
    sys_close(sys, (int)fd);
    *why = "its copy was changed after it was written";
    return -ESTALE;
}

int frozen_read_of(const struct rimf_sys *sys, const char *path, struct file_id *file)
{
    struct stat st;
    long error = SYS6(sys, SYS_newfstatat, AT_FDCWD, path, &st, 0, 0, 0);

    *file = (struct file_id){.inode = 0};
    if (!error)
        file_id_of(file, &st);
    return !error || error == -ENOENT || error == -ENOTDIR;
}

const char *frozen_other_read(const struct frozen *f, const struct rimf_sys *sys)
{
    struct file_id now;

    for (uint32_t i = 0; i < f->header->n_reads; i++) {
        const struct frozen_read *read = &f->header->reads[i];

        if (frozen_read_of(sys, f->names + read->name, &now) && !file_id_same(&now, &read->file))
            return f->names + read->name;
    }
    return NULL;
}

long frozen_map_text(const struct rimf_sys *sys, uintptr_t bias, const struct frozen_text *text,
                     int fd)
{
    return sys_mmap(sys, bias + text->linked, text->size, PROT_READ | PROT_EXEC,
                    MAP_PRIVATE | MAP_FIXED, fd, text->offset);
}

/* Files are written in large pieces of memory.  What the kernel had to let go of comes back in single pages
 * for good, at 150 us for each start of bash, unless the first to touch it wants huge ones: so it reads
 * 2 MiB at once.  Of much code only a part may be wanted. */
#define LARGE_MIN (64ul << 10)
#define LARGE_MAX (8ul << 20)

void frozen_want_large(const struct rimf_sys *sys, int filtered, uintptr_t at, size_t size)
{
    if (!filtered && size >= LARGE_MIN && size <= LARGE_MAX)
        SYS3(sys, SYS_madvise, at, size, MADV_HUGEPAGE);
}

void frozen_in_large_pieces(const struct frozen_file *file, const struct rimf_sys *sys, uintptr_t at,
                            size_t size)
{
    frozen_want_large(sys, !file->unfiltered, at, size);
}

void frozen_unmap(struct frozen_file *file, const struct rimf_sys *sys)
{
    if (file->map)
        sys_munmap(sys, (uintptr_t)file->map, file->size);
    if (file->folder >= 0)
        sys_close(sys, file->folder);
    *file = (struct frozen_file){.folder = -1};
}

/* Of the files in an image's folder: one that we write there. */
static int is_part(const void *unused, const char *name)
{
    const char *rest = name;

    (void)unused;
    while (*rest >= '0' && *rest <= '9')
        rest++;
    return (rest > name && *rest == '-') || rimf_after(name, LATER_FILE) ||
           rimf_streq(name, FROZEN_COPIES) || rimf_streq(name, FROZEN_RELOCATIONS) ||
           rimf_streq(name, "image");
}

int frozen_remove(const struct rimf_sys *sys, const char *folder, uint32_t user, const char **why)
{
    struct stat st;
    long fd = cache_open(sys, AT_FDCWD, folder, S_IFDIR, user, &st, why), error;

    if (sys_failed(fd))
        return (int)fd;
    SYS3(sys, SYS_unlinkat, fd, "image", 0); /* first: nobody takes the rest for whole */
    cache_sweep(sys, (int)fd, is_part, NULL);
    sys_close(sys, (int)fd);
    error = SYS3(sys, SYS_unlinkat, AT_FDCWD, folder, AT_REMOVEDIR);
    if (error)
        *why = "its folder cannot be removed";
    return (int)error;
}
