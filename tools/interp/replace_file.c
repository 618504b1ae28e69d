/* SPDX-License-Identifier: MIT
 *
 * replace_file.c: a new content for an old file, at once.
 *
 * Written aside in the same folder, synced, renamed: whoever opens the file gets
 * the old one or the new one, and a program that runs keeps its own.  The order of
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

const char *replace_file(const char *path, const struct bytes *content)
{
    static char text[512];
    const char *slash = strrchr(path, '/'), *why;
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
    if (!why && rename(aside, path))
        why = "cannot be replaced";
    if (why)
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
