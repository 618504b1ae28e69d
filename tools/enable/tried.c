/* SPDX-License-Identifier: MIT
 *
 * enable/tried.c: remembers programs for which `mvld enable --stale` has failed, so that the next
 * run of this job in the background does not fail in the same way for minutes.
 *
 * An empty file in the cache, named after the program, has the time of the try.  It is void when
 * a file that decides about the result was changed since, and after a day: what else may fail, such
 * as a full disk, leaves no trace.
 */
#include "rimf/base/base.h"
#include "tools/analyze/analyze.h"
#include "tools/common/paths.h"
#include "tools/config/make.h"
#include "tools/enable/enable.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define VOID_AFTER 86400 /* seconds */
#define SYSTEM_FOLDER "/var/cache/mvld/failed"

/* To be freed; NULL: there is no cache. */
static char *file_of(const char *program)
{
    char own[4096] = SYSTEM_FOLDER;
    const char *wrong;
    if (geteuid() && !path_users_cache(own, sizeof own, "failed", &wrong))
        return NULL;
    return must_print("%s/%016" PRIx64, own, rimf_hash(program, strlen(program)));
}

/* A file that is gone was changed. */
static int is_changed(const char *path, const struct timespec *since)
{
    struct stat st;
    if (stat(path, &st))
        return 1;
    return st.st_ctim.tv_sec != since->tv_sec ? st.st_ctim.tv_sec > since->tv_sec : st.st_ctim.tv_nsec >= since->tv_nsec;
}

/* An installer replaces the loader first and the passes last: a try in between fails. */
static int has_mvld_changed(const struct timespec *since)
{
    char *folders = must_print("%s", path_passes()), *rest = folders;
    int changed = is_changed(path_loader(), since);
    for (const char *folder; (folder = strsep(&rest, ":"));)
        changed = changed || is_changed(folder, since);
    free(folders);
    return changed;
}

/* Without the list of its libraries it is the program's file that counts.  A library that makes the list possible is new. */
static int has_changed(const char *program, const struct timespec *since)
{
    struct config_made made;
    struct paths paths = {0};
    int changed = is_changed(program, since) || has_mvld_changed(since);

    paths_of_program(&paths, program);
    config_make(&made, geteuid() != 0, NULL);
    changed = changed || (made.path && !access(made.path, F_OK) && is_changed(made.path, since));
    for (size_t i = 0; i < paths.n; i++)
        changed = changed || is_changed(paths.at[i], since);
    config_made_free(&made);
    paths_free(&paths);
    return changed;
}

int tried_in_vain(const char *program)
{
    char *path = file_of(program);
    struct stat st;
    time_t now = time(NULL);
    /* A mark of a clock that was ahead would hold until then, whatever changes. */
    int in_vain = path && !stat(path, &st) && st.st_mtim.tv_sec + VOID_AFTER > now && st.st_mtim.tv_sec <= now &&
                  !has_changed(program, &st.st_mtim);
    free(path);
    return in_vain;
}

struct timespec tried_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now); /* the clock of files */
    return now;
}

void tried_note(const char *program, const struct timespec *when, int failed)
{
    char *path = file_of(program), *folder = path ? must_print("%.*s", (int)(strrchr(path, '/') - path), path) : NULL;
    int fd = failed && path && !make_folders(folder)
                 ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644) : -1;

    if (fd >= 0) {
        futimens(fd, (const struct timespec[]){*when, *when});
        close(fd);
    } else if (path) {
        unlink(path);
    }
    free(folder);
    free(path);
}
