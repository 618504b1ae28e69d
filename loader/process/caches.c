/* SPDX-License-Identifier: MIT
 *
 * loader/process/caches.c: the caches of this process's user (rimf/base/cache.h has the rules).
 * Under AT_SECURE there is only root's.
 */
#include "loader/loader.h"

#include "loader/process/process.h"
#include "rimf/base/cache.h"
#include "rimf/analysis/analysis.h"
#include "rimf/base/trusted.h"

#include <errno.h> /* numbers only */
#include <fcntl.h> /* numbers only */
#include <time.h>  /* numbers only */

#define LOCK_PATH_MAX 1024
#define FOLDER_MAX 1024

/* The value of a setting, unless the program has written over it since: servers write titles over their environment. */
static const char *value_of(const char *setting, const char *name)
{
    return setting ? rimf_after(setting, name) : NULL;
}

static const char *cache_home(const struct loader *l)
{
    return value_of(l->knobs->cache_home, "XDG_CACHE_HOME=");
}

/* The user whose files are trusted besides root's: the user who started the program. */
uint32_t caches_user(const struct loader *l)
{
    return l->block->secure ? 0 : l->block->user;
}

/* Returns 1 if this process writes to the user's folder, 0 if to root's. */
int caches_own(const struct loader *l)
{
    return cache_is_own(caches_user(l), cache_home(l));
}

/* 0 or -ENOENT: nobody else can change the path. */
static int look(const struct loader *l, const char *path, uint32_t user)
{
    const char *why;
    struct stat st;
    size_t wrong;
    int error = trusted_path(l->sys, path, user, &st, &why, &wrong);

    if (error && error != -ENOENT)
        rimf_log(&l->log, MVLD_LOG_FILES, "%s: not used, because of %.*s: %s", path, (int)wrong, path, why);
    return error;
}

/* The path of the folder that contains WHAT is checked once, and then only WHAT: a start asks for
 * several. */
int caches_steered(void *loader, const char *path)
{
    struct loader *l = loader;
    size_t around = (size_t)(rimf_strrchr(path, '/') - path);
    uint32_t user = caches_user(l);
    char above[FOLDER_MAX];
    struct stat st;
    long error;

    if (around >= sizeof above)
        return 1;
    if (!l->caches->asked) {
        memcpy(above, path, around);
        above[around] = '\0';
        error = look(l, above, user);
        *l->caches = (struct caches){.asked = 1, .steered = error && error != -ENOENT};
    }
    if (l->caches->steered)
        return 1;
    error = SYS6(l->sys, SYS_newfstatat, AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW, 0, 0);
    if (error == -ENOENT || (!error && !S_ISLNK(st.st_mode) && (st.st_uid == 0 || st.st_uid == user) &&
                             !(st.st_mode & 022)))
        return 0;
    error = look(l, path, user);
    return error && error != -ENOENT;
}

size_t caches_name(const struct loader *l, const char *what, char *to, size_t size)
{
    return l->block->secure ? 0 : cache_user_folder(to, size, cache_home(l), value_of(l->knobs->home, "HOME="), what);
}

size_t caches_folder(struct loader *l, const char *what, char *to, size_t size)
{
    size_t length = caches_name(l, what, to, size);

    return length && !caches_steered(l, to) ? length : 0;
}

size_t caches_beside(const char *snapshot, const char *file, char *to, size_t size)
{
    size_t n = rimf_strlen(snapshot);

    for (int slashes = 0; n && slashes < 2;)
        slashes += snapshot[--n] == '/';
    if (!n || n + rimf_strlen(file) + sizeof "/" > size)
        return 0;
    memcpy(to, snapshot, n);
    return n + rimf_format(to + n, size - n, "/%s", file);
}

long caches_lock(const struct loader *l, const char *snapshot, uint32_t user, int wait, const char **why)
{
    char path[LOCK_PATH_MAX];

    *why = "the name of the cache is too long";
    if (!caches_beside(snapshot, CACHE_LOCK, path, sizeof path))
        return -ENAMETOOLONG;
    int error = cache_make_folders(l->sys, path, 2);
    long fd = cache_lock(l->sys, AT_FDCWD, path, user, wait, why);
    if (fd == -ENOENT && error) {
        *why = "the folder of the cache cannot be made";
        return error;
    }
    return fd;
}

#define YOUNG 60 /* seconds */

int caches_young(const struct loader *l, const char *path)
{
    struct timespec now;
    struct stat st;

    return !SYS6(l->sys, SYS_newfstatat, AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW, 0, 0) &&
           !SYS3(l->sys, SYS_clock_gettime, CLOCK_REALTIME, &now, 0) &&
           now.tv_sec >= st.st_mtim.tv_sec && now.tv_sec - st.st_mtim.tv_sec < YOUNG;
}
