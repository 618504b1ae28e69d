/* SPDX-License-Identifier: MIT
 *
 * doctor_caches.c: where analyses and frozen images lie (rimf/cache.h has the rules), and
 * what there keeps a start from taking them.
 */
#include "doctor.h"

#include "cache.h"
#include "frozen.h"
#include "sidecar.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

struct kept {
    unsigned n, refused; /* entries of a folder, and those that no start takes */
};

/* Files on which a start decides by their owner and mode. */
static int count(const char *path, struct kept *kept)
{
    DIR *folder = opendir(path);
    struct dirent *entry;
    struct stat st;

    *kept = (struct kept){0};
    if (!folder)
        return -1;
    while ((entry = readdir(folder))) {
        if (entry->d_name[0] == '.' || fstatat(dirfd(folder), entry->d_name, &st, AT_SYMLINK_NOFOLLOW))
            continue;
        kept->n++;
        kept->refused += (st.st_uid != 0 && st.st_uid != geteuid()) || st.st_mode & 022;
    }
    closedir(folder);
    return 0;
}

/* Of the folder, or of that in which it would be made. */
static int is_noexec(const char *path)
{
    char *at = must_print("%s", path), *slash;
    struct statvfs fs;
    int error;

    while ((error = statvfs(at, &fs)) && errno == ENOENT && (slash = strrchr(at, '/')) && slash > at)
        *slash = 0;
    free(at);
    return !error && fs.f_flag & ST_NOEXEC;
}

/* `code`: what lies there is mapped to be run. */
static void report_cache(struct report *r, const char *name, const char *path, int code)
{
    struct kept kept;

    if (code && is_noexec(path))
        report_finding(r, name, FINDING_PROBLEM,
                       "mount it without noexec, or set XDG_CACHE_HOME to another folder",
                       "%s: no code may be mapped from there (noexec)", path);
    else if (count(path, &kept))
        report_finding(r, name, errno == ENOENT ? FINDING_ABSENT : FINDING_PROBLEM, NULL, "%s: %s",
                       path, errno == ENOENT ? "none yet" : strerror(errno));
    else if (kept.refused)
        report_finding(r, name, FINDING_PROBLEM, "remove them, or chown and chmod go-w them",
                       "%s: %u of %u are not taken: others than root and you own them or may write "
                       "them", path, kept.refused, kept.n);
    else
        report_finding(r, name, FINDING_OK, NULL, "%s: %u", path, kept.n);
}

static void report_users(struct report *r, const char *name, const char *what, int code)
{
    char path[PATH_MAX];

    if (cache_user_folder(path, sizeof path, getenv("XDG_CACHE_HOME"), getenv("HOME"), what))
        report_cache(r, name, path, code);
    else
        report_finding(r, name, FINDING_ABSENT, "set HOME or XDG_CACHE_HOME", "no folder");
}

void doctor_caches(struct report *r)
{
    report_heading(r, "Caches");
    report_cache(r, "analyses", SIDECAR_SYSTEM_FOLDER, 0);
    report_users(r, "analyses of user", "analysis", 0);
    report_cache(r, "images", FROZEN_SYSTEM_FOLDER, 1);
    report_users(r, "images of user", "images", 1);
}
