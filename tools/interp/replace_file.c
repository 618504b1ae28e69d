/* SPDX-License-Identifier: MIT
 *
 * replace_file.c: a new content for an old file, at once.
 *
 * Written aside in the same folder, synced, exchanged: whoever opens the file gets
 * the old one or the new one, and a program that runs keeps its own.  What is exchanged is looked at:
 * a package may have replaced the file since it was read, and its new version must not be lost.  The order of
 * what is copied matters: chown clears set-id bits and capabilities, and any write
 * changes the times.
 */
#include "tools/interp/interp.h"
#include "tools/common/tools.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static int write_all(int fd, const struct bytes *content)
{
    for (size_t done = 0; done < content->size;) {
        ssize_t n = write(fd, content->at + done, content->size - done);
        if (n < 0 && errno != EINTR)
            return -1;
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static int copy_attribute(int from, int to, const char *name)
{
    ssize_t size = fgetxattr(from, name, NULL, 0);
    if (size < 0)
        return -1;
    void *value = must_alloc((size_t)size, 1);
    int failed = fgetxattr(from, name, value, (size_t)size) != size ||
                 fsetxattr(to, name, value, (size_t)size, 0);
    free(value);
    return failed ? -1 : 0;
}

static int copy_attributes(int from, int to)
{
    ssize_t size = flistxattr(from, NULL, 0);
    if (size <= 0)
        return size < 0 && errno != ENOTSUP ? -1 : 0;
    char *names = must_alloc((size_t)size, 1);
    size = flistxattr(from, names, (size_t)size);
    int failed = size < 0;
    for (ssize_t i = 0; !failed && i < size; i += (ssize_t)strlen(names + i) + 1)
        failed = copy_attribute(from, to, names + i);
    free(names);
    return failed ? -1 : 0;
}

static const char *fill(int from, int to, const struct bytes *content)
{
    struct stat st;
    if (fstat(from, &st))
        return "cannot be looked at";
    const struct timespec times[2] = {st.st_atim, st.st_mtim};
    if (write_all(to, content))
        return "the new file cannot be written";
    if (fchown(to, st.st_uid, st.st_gid))
        return "the new file cannot be given the owner of the old one";
    if (copy_attributes(from, to))
        return "an extended attribute cannot be copied";
    if (fchmod(to, st.st_mode & 07777))
        return "the new file cannot be given the mode of the old one";
    if (futimens(to, times))
        return "the new file cannot be given the times of the old one";
    if (fsync(to))
        return "the new file cannot be written";
    return NULL;
}

static int is_file(const char *path, const struct stat *file)
{
    struct stat st;
    return !lstat(path, &st) && st.st_dev == file->st_dev && st.st_ino == file->st_ino &&
           st.st_size == file->st_size && st.st_mtim.tv_sec == file->st_mtim.tv_sec &&
           st.st_mtim.tv_nsec == file->st_mtim.tv_nsec;
}

static const char another[] = "another file has come in its place meanwhile, and stays";

/* `aside` in the place of `file`, the one that was read; where another file is there, that one stays. */
static const char *exchange(const char *aside, const char *path, const struct stat *file)
{
    if (!renameat2(AT_FDCWD, aside, AT_FDCWD, path, RENAME_EXCHANGE)) {
        if (is_file(aside, file))
            return unlink(aside) ? "the old file cannot be removed" : NULL;
        return rename(aside, path) ? "another file came meanwhile, and cannot be put back" : another;
    }
    if (errno != EINVAL && errno != ENOSYS)
        return "cannot be replaced";
    if (!is_file(path, file)) /* of a file system that cannot exchange */
        return another;
    return rename(aside, path) ? "cannot be replaced" : NULL;
}

const char *replace_file(const struct elf_file *f, const struct bytes *content)
{
    static char text[512];
    const char *path = f->path, *slash = strrchr(path, '/'), *why;
    int folder = slash ? (int)(slash - path) + 1 : 0;
    char *aside = must_print("%.*s.mvld-XXXXXX", folder, path);
    int from = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    int to = from < 0 ? -1 : mkostemp(aside, O_CLOEXEC);

    if (from < 0)
        why = "cannot be opened";
    else if (to < 0)
        why = "no file can be made beside it";
    else
        why = fill(from, to, content);
    if (!why)
        why = exchange(aside, path, &f->read_from);
    if (why == another)
        snprintf(text, sizeof text, "%s", why);
    else if (why)
        snprintf(text, sizeof text, "%s: %s", why, strerror(errno));
    if (to >= 0) {
        if (why)
            unlink(aside);
        close(to);
    }
    if (from >= 0)
        close(from);
    free(aside);
    return why ? text : NULL;
}
