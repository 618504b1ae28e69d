/* SPDX-License-Identifier: MIT
 *
 * replace_file.c: replaces a file's content atomically.
 *
 * The new file is written in the same folder under another name, synced, and exchanged: whoever
 * opens the file gets the old or the new one, and a running program keeps its own.  The exchanged
 * file is checked: a package may have replaced the file since it was read, and its new version must
 * not be lost.  The order of copying attributes matters: chown clears set-id bits and capabilities,
 * and any write changes the times.
 */
#include "tools/interp/interp.h"
#include "tools/common/tools.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

int write_whole(int fd, const void *content, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = write(fd, (const char *)content + done, size - done);
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
    if (write_whole(to, content->at, content->size))
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

/* Exchanges `aside` and `file`, if that is the one that was read; another file is not replaced. */
static const char *exchange(const char *aside, const char *path, const struct stat *file)
{
    if (!renameat2(AT_FDCWD, aside, AT_FDCWD, path, RENAME_EXCHANGE)) {
        if (is_file(aside, file))
            return unlink(aside) ? "the old file cannot be removed" : NULL;
        return rename(aside, path) ? "another file came meanwhile, and cannot be put back" : another;
    }
    if (errno != EINVAL && errno != ENOSYS)
        return "cannot be replaced";
    if (!is_file(path, file)) /* on a file system that cannot exchange */
        return another;
    return rename(aside, path) ? "cannot be replaced" : NULL;
}

/* ---- names ------------------------------------------------------------------------------ */

#define ASIDE_RANDOM "XXXXXX"

static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

/* Another tool may work on the same file, with another record of changes: so each uses its own
 * name. */
int aside_open(const char *path, char **name)
{
    int folder = (int)folder_length(path);
    *name = must_print("%.*s.%s.mvld-" ASIDE_RANDOM, folder, path, path + folder);
    return mkostemp(*name, O_CLOEXEC);
}

void asides_remove(const char *path)
{
    size_t n = folder_length(path);
    char *folder = must_print("%.*s.", (int)n, path), *start = must_print(".%s.mvld-", path + n);
    DIR *entries = opendir(folder);
    for (struct dirent *e; entries && (e = readdir(entries));)
        if (!strncmp(e->d_name, start, strlen(start)) &&
            strlen(e->d_name) == strlen(start) + strlen(ASIDE_RANDOM))
            unlinkat(dirfd(entries), e->d_name, 0);
    if (entries)
        closedir(entries);
    free(start);
    free(folder);
}

const char *replace_file(const struct elf_file *f, const struct bytes *content)
{
    static char text[512];
    const char *path = f->path, *why;
    char *aside = NULL;
    int from = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    int to = from < 0 ? -1 : aside_open(path, &aside);

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
