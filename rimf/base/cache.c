/* SPDX-License-Identifier: MIT
 *
 * rimf/base/cache.c: which files of a cache are trusted, and how they are written; cache.h has the rules.
 */
#include "rimf/base/cache.h"

#include "rimf/base/base.h"
#include "rimf/base/sys.h"

#include <errno.h>    /* numbers only */
#include <fcntl.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

/* By the XDG specification, a relative path is ignored. */
static int is_chosen(const char *xdg)
{
    return xdg && *xdg == '/';
}

int cache_is_own(uint32_t user, const char *xdg)
{
    return user != 0 || is_chosen(xdg);
}

size_t cache_user_folder(char *to, size_t size, const char *xdg, const char *home,
                         const char *what)
{
    size_t n;

    if (is_chosen(xdg))
        n = rimf_format(to, size, "%s/mvld/%s", xdg, what);
    else if (home && *home == '/')
        n = rimf_format(to, size, "%s/.cache/mvld/%s", home, what);
    else
        return 0;
    return n < size ? n : 0;
}

/* What root makes serves everybody, whatever root's umask is. */
static int is_roots(const struct rimf_sys *sys)
{
    return !SYS3(sys, SYS_geteuid, 0, 0, 0);
}

int cache_make_folder(const struct rimf_sys *sys, const char *path)
{
    long error = SYS3(sys, SYS_mkdirat, AT_FDCWD, path, 0755);

    if (!error && is_roots(sys))
        SYS3(sys, SYS_fchmodat, AT_FDCWD, path, 0755);
    return (int)error;
}

int cache_make_folders(const struct rimf_sys *sys, char *path, size_t last)
{
    char *slash[3];
    size_t n = 0;
    long error = 0;

    for (char *at = path + rimf_strlen(path); at > path && n < last && n < RIMF_COUNT(slash);)
        if (*--at == '/')
            slash[n++] = at;
    while (n-- > 0) {
        *slash[n] = '\0';
        error = cache_make_folder(sys, path);
        *slash[n] = '/';
    }
    return error == -EEXIST ? 0 : (int)error;
}

static long check_file(const struct rimf_sys *sys, int fd, uint32_t kind, uint32_t user,
                       struct stat *st, const char **why)
{
    long failed = SYS3(sys, SYS_fstat, fd, st, 0);

    if (failed) {
        *why = "it cannot be looked at";
        return failed;
    }
    if ((st->st_mode & S_IFMT) != kind) {
        *why = kind == S_IFDIR ? "it is no folder" : "it is no regular file";
        return -EINVAL;
    }
    if ((st->st_uid != 0 && st->st_uid != user) || (st->st_mode & 022)) {
        *why = "others than root and the user own it or may write it";
        return -EPERM;
    }
    return 0;
}

long cache_open(const struct rimf_sys *sys, int at, const char *path, uint32_t kind,
                uint32_t user, struct stat *st, const char **why)
{
    /* O_NONBLOCK: a FIFO must not block the program. */
    long fd = SYS6(sys, SYS_openat, at, path,
                   O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0, 0, 0);
    long failed;

    if (sys_failed(fd)) {
        *why = fd == -ENOENT ? "there is none" : "it cannot be opened";
        return fd;
    }
    failed = check_file(sys, (int)fd, kind, user, st, why);
    if (failed)
        sys_close(sys, (int)fd);
    return failed ? failed : fd;
}

int cache_map(const struct rimf_sys *sys, int at, const char *path, uint32_t user, size_t least,
              size_t most, void **map, size_t *size, const char **why)
{
    struct stat st;
    long fd = cache_open(sys, at, path, S_IFREG, user, &st, why), got = -EINVAL;

    if (sys_failed(fd))
        return (int)fd;
    *size = (size_t)st.st_size;
    if (*size < least || *size > most) {
        *why = "it is too small or too large for what it should be";
    } else {
        got = sys_mmap(sys, 0, *size, PROT_READ, MAP_PRIVATE, (int)fd, 0);
        if (sys_failed(got))
            *why = "it cannot be mapped";
    }
    sys_close(sys, (int)fd);
    if (sys_failed(got))
        return (int)got;
    *map = (void *)got;
    return 0;
}

long cache_lock(const struct rimf_sys *sys, int at, const char *path, uint32_t user, int wait,
                const char **why)
{
    long fd = SYS6(sys, SYS_openat, at, path,
                   O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0600, 0, 0);
    const struct flock all = {.l_type = F_WRLCK};
    static const char foreign[] = "what stands in the cache as `" CACHE_LOCK "' is no lock of mvld: remove it";
    struct stat st;
    long failed;

    if (sys_failed(fd)) {
        *why = fd == -EISDIR || fd == -ELOOP || fd == -ENXIO ? foreign : "the lock of the cache cannot be opened";
        return fd;
    }
    failed = check_file(sys, (int)fd, S_IFREG, user, &st, why);
    if (failed) {
        *why = foreign;
    } else { /* not flock, which children inherit */
        failed = SYS3(sys, SYS_fcntl, fd, wait ? F_SETLKW : F_SETLK, &all);
        if (failed)
            *why = "another process writes to the cache";
    }
    if (failed)
        sys_close(sys, (int)fd);
    return failed ? failed : fd;
}

int cache_write_part(const struct rimf_sys *sys, int fd, const void *from, size_t size, uint64_t at)
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

long cache_create(const struct rimf_sys *sys, int folder, const char *name)
{
    long fd = SYS6(sys, SYS_openat, folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644, 0, 0);

    if (!sys_failed(fd) && is_roots(sys))
        SYS3(sys, SYS_fchmod, fd, 0644, 0);
    return fd;
}

int cache_write(const struct rimf_sys *sys, int folder, const char *name, const void *bytes, size_t size)
{
    long fd = cache_create(sys, folder, name);
    int error;

    if (sys_failed(fd))
        return (int)fd;
    error = cache_write_part(sys, (int)fd, bytes, size, 0);
    if (!error)
        error = (int)SYS3(sys, SYS_fsync, fd, 0, 0);
    sys_close(sys, (int)fd);
    return error;
}

struct entry { /* struct linux_dirent64 */
    uint64_t inode, next;
    uint16_t size;
    uint8_t type;
    char name[];
};

/* Returns 1 if a file was removed: then the folder may have been read incompletely. */
static int sweep_once(const struct rimf_sys *sys, int folder,
                      int (*goes)(const void *cookie, const char *name), const void *cookie)
{
    _Alignas(struct entry) char some[1024];
    int removed = 0;
    long n;

    SYS3(sys, SYS_lseek, folder, 0, 0 /* SEEK_SET */);
    while ((n = SYS3(sys, SYS_getdents64, folder, some, sizeof some)) > 0)
        for (long at = 0; at < n; at += ((struct entry *)(some + at))->size) {
            const char *name = ((struct entry *)(some + at))->name;

            if (goes(cookie, name) && !SYS3(sys, SYS_unlinkat, folder, name, 0))
                removed = 1;
        }
    return removed;
}

void cache_sweep(const struct rimf_sys *sys, int folder,
                 int (*goes)(const void *cookie, const char *name), const void *cookie)
{
    while (sweep_once(sys, folder, goes, cookie))
        ;
}
