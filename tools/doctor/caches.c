/* SPDX-License-Identifier: MIT
 *
 * doctor/caches.c: reports folders of analyses, snapshots and the CPU's record (rimf/base/cache.h
 * has the rules), and what keeps a start from using them.
 */
#include "tools/cache/items.h"
#include "tools/doctor/doctor.h"
#include "tools/common/paths.h"

#include "rimf/base/cache.h"
#include "rimf/base/cpu.h"
#include "rimf/store/manifest.h"
#include "rimf/analysis/analysis.h"
#include "rimf/base/sys.h"

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
    unsigned n, refused; /* entries of a folder, and those that no start uses */
    unsigned gone; /* analyses of missing files */
    unsigned states[CACHE_DAMAGED + 1]; /* snapshots */
    char *left_over; /* rest of a killed build, to be freed; or NULL */
    const char *stays; /* why the next build does not remove it, or NULL */
    unsigned behind; /* of the user's: those with other distances than root's for the same starts */
};

/* A start tries root's first, and uses its distances. */
static int is_behind(const struct manifest *users, const char *name)
{
    char *folder = must_print(MANIFEST_SYSTEM_FOLDER "/%s", name);
    struct manifest_file roots;
    const char *why;
    int error = manifest_map_start(&roots, &rimf_sys_kernel, folder, geteuid(), &why);
    int behind = !error && roots.view.header->layout_seed != users->header->layout_seed;

    if (!error)
        manifest_unmap(&roots, &rimf_sys_kernel);
    free(folder);
    return behind;
}

/* Reports each that no start uses, or that is stale, by program. */
static void report_image(struct report *r, const struct cached *c)
{
    char *remedy = cached_remedy(c);

    report_finding(r, c->state == CACHE_STALE ? "stale" : "not taken", FINDING_ABSENT, remedy, "%s: %s",
                   c->file.map ? c->file.view.names + c->file.view.objects[0].name : c->path, c->why);
    free(remedy);
}

static void count_image(struct report *r, const char *path, const char *name, struct kept *kept)
{
    char *folder = must_print("%s/%s", path, name);
    struct cached c;

    cached_open(&c, folder, 0);
    kept->states[c.state]++;
    if (c.state != CACHE_GOOD)
        report_image(r, &c);
    kept->behind += c.state == CACHE_GOOD && is_behind(&c.file.view, name);
    cached_close(&c);
    free(folder);
}

static void count_analyses(const char *path, struct kept *kept)
{
    struct cache_items items = {0}, snapshots = {0};
    struct cache_uses uses = {0};

    cache_snapshots_add(&snapshots);
    cache_uses_add(&uses, &snapshots);
    cache_items_free(&snapshots);
    cache_items_add(&items, path);
    kept->n = items.n ? (unsigned)items.n : kept->n;
    for (size_t i = 0; i < items.n; i++) {
        struct cached_analysis c;

        cached_analysis_open(&c, items.at[i].path, &uses, 0);
        kept->gone += c.state == CACHE_OF_OTHER_FILES;
        cached_analysis_close(&c);
    }
    cache_uses_free(&uses);
    cache_items_free(&items);
}

/* Nobody writes to it now. */
static void count_left_over(const char *path, struct kept *kept)
{
    int lock = cache_lock_of(path);

    kept->left_over = lock < 0 ? NULL : cache_left_over(path, &kept->stays);
    if (lock >= 0)
        close(lock);
}

/* Counts files, which a start judges by owner and mode; and the usable snapshots by their contents. */
static int count(struct report *r, const char *path, struct kept *kept, int images)
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
        if ((st.st_uid != 0 && st.st_uid != geteuid()) || st.st_mode & 022)
            kept->refused++;
        else if (images && cached_is_folder(entry->d_name))
            count_image(r, path, entry->d_name, kept);
    }
    closedir(folder);
    if (!images && !kept->refused)
        count_analyses(path, kept);
    count_left_over(path, kept);
    return 0;
}

/* For the folder, or the one in which it would be created. */
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

static void report_states(struct report *r, const char *name, const char *path, const struct kept *kept)
{
    const char *left = kept->left_over ? "; a build that was stopped has left what it had written" : "";
    const unsigned *states = kept->states;

    if (states[CACHE_OF_OTHER_MVLD] || states[CACHE_OF_OTHER_FILES] || states[CACHE_DAMAGED])
        report_finding(r, name, FINDING_ABSENT,
                       "`mvld build PROGRAM' makes them anew, `mvld cache prune' removes them (with "
                       "--other-mvld those of another mvld)",
                       "%s: %u; no start takes %u that another mvld made, %u whose files were "
                       "replaced, %u damaged%s", path, kept->n, states[CACHE_OF_OTHER_MVLD],
                       states[CACHE_OF_OTHER_FILES], states[CACHE_DAMAGED], left);
    else if (kept->behind)
        report_finding(r, name, FINDING_ABSENT, "`mvld build PROGRAM' makes them anew, at the distances of root's",
                       "%s: %u; no start takes %u that are older than root's for the same starts%s", path, kept->n,
                       kept->behind, left);
    else if (kept->left_over)
        report_finding(r, name, FINDING_ABSENT, "the next build removes it, or `mvld cache prune'", "%s: %u%s",
                       path, kept->n, left);
    else if (kept->gone)
        report_finding(r, name, FINDING_ABSENT, "`mvld cache prune' removes them",
                       "%s: %u; %u are of files that are gone or were replaced", path, kept->n, kept->gone);
    else
        report_finding(r, name, FINDING_OK, NULL, "%s: %u", path, kept->n);
}

/* `code`: the entries are snapshots, which are mapped executable. */
static void report_cache(struct report *r, const char *name, const char *path, int code)
{
    struct kept kept = {0};

    if (code && is_noexec(path))
        report_finding(r, name, FINDING_PROBLEM,
                       "mount it without noexec, or set XDG_CACHE_HOME to another folder",
                       "%s: no code may be mapped from there (noexec)", path);
    else if (count(r, path, &kept, code))
        report_finding(r, name, errno == ENOENT ? FINDING_ABSENT : FINDING_PROBLEM, NULL, "%s: %s",
                       path, errno == ENOENT ? "none yet" : strerror(errno));
    else if (kept.stays)
        report_finding(r, name, FINDING_PROBLEM, "no build succeeds while it is there: remove it, if it is not needed",
                       "%s: %s", kept.left_over, kept.stays);
    else if (kept.refused)
        report_finding(r, name, FINDING_PROBLEM, "remove them, or chown and chmod go-w them",
                       "%s: %u of %u are not taken: others than root and you own them or may write "
                       "them", path, kept.refused, kept.n);
    else
        report_states(r, name, path, &kept);
    free(kept.left_over);
}

static void report_users(struct report *r, const char *name, const char *what, int code)
{
    char path[PATH_MAX];
    const char *wrong;

    if (path_users_cache(path, sizeof path, what, &wrong))
        report_cache(r, name, path, code);
    else if (wrong)
        report_finding(r, name, FINDING_PROBLEM, NULL, "%s", wrong);
    else
        report_finding(r, name, FINDING_ABSENT, "set HOME or XDG_CACHE_HOME", "no folder");
}

/* In a virtual machine: the CPU's recorded answers. */
static void report_record(struct report *r, const char *name, const char *path)
{
    struct cpu_record record;
    const char *why;
    void *map;
    size_t size;
    int error = cache_map(&rimf_sys_kernel, AT_FDCWD, path, geteuid(), 1, sizeof record, &map, &size, &why);

    if (error == -ENOENT) {
        report_finding(r, name, FINDING_ABSENT, NULL, "%s: none yet", path);
        return;
    }
    if (!error) {
        memcpy(&record, map, size);
        sys_munmap(&rimf_sys_kernel, (uintptr_t)map, size);
        error = cpu_record_check(&record, size, &why);
        if (!error && !cpu_record_fits(&record, &cpu_at_hand)) {
            why = "it is of another CPU or hypervisor";
            error = -ESTALE;
        }
    }
    if (error)
        report_finding(r, name, FINDING_ABSENT, "`mvld build PROGRAM' makes it anew",
                       "%s: %s: each start asks the CPU", path, why);
    else
        report_finding(r, name, FINDING_OK, NULL, "%s: %u answers", path, record.n);
}

void doctor_caches(struct report *r)
{
    char path[PATH_MAX];
    const char *wrong;

    report_heading(r, "Caches");
    report_cache(r, "analyses", ANALYSIS_SYSTEM_FOLDER, 0);
    report_users(r, "analyses of user", "analysis", 0);
    report_cache(r, "snapshots", MANIFEST_SYSTEM_FOLDER, 1);
    report_users(r, "snapshots of user", "snapshots", 1);
    report_record(r, "CPU", CPU_SYSTEM_FILE);
    if (path_users_cache(path, sizeof path, CPU_FILE, &wrong))
        report_record(r, "CPU of user", path);
}
