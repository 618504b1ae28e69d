/* SPDX-License-Identifier: MIT
 *
 * changes/made.c: see changes/made.h.
 */
#include "tools/changes/made.h"
#include "tools/common/tools.h"
#include "tools/interp/interp.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *made_sum(const void *text, size_t size)
{
    return must_print("%016" PRIx64, bytes_sum(text, size));
}

const char *made_write(const char *path, const void *text, size_t size, unsigned mode)
{
    char *aside = NULL;
    int fd = aside_open(path, &aside), failed = fd < 0;

    failed = failed || write_whole(fd, text, size) || fchmod(fd, mode) || fsync(fd) ||
             link(aside, path); /* unlike rename, never replaces a file */
    const char *why = failed ? must_print("%s", strerror(errno)) : NULL;
    if (fd >= 0) {
        unlink(aside);
        close(fd);
    }
    free(aside);
    return why;
}

int made_stands(const char *path, const char *sum)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), same = -1;
    if (fd < 0)
        return errno == ENOENT ? 0 : -1;
    if (!fstat(fd, &st) && S_ISREG(st.st_mode)) {
        unsigned char *text = must_alloc((size_t)st.st_size, 1);
        if (read(fd, text, (size_t)st.st_size) == st.st_size &&
            bytes_sum(text, (size_t)st.st_size) == strtoull(sum, NULL, 16))
            same = 1;
        free(text);
    }
    close(fd);
    return same;
}

const char *made_remove(const char *path, const char *sum)
{
    int stands = made_stands(path, sum);
    if (stands < 0)
        return "it was changed since mvld made it, and stays";
    return stands && unlink(path) ? strerror(errno) : NULL;
}

void made_remove_folders(const char *path, int n)
{
    char *folder = must_print("%s", path), *slash;
    while (n-- > 0 && (slash = strrchr(folder, '/'))) {
        *slash = 0;
        if (rmdir(folder))
            break;
    }
    free(folder);
}
