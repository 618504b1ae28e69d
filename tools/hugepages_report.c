/* SPDX-License-Identifier: MIT
 *
 * hugepages_report.c: what this machine has of huge pages: for `mvld hugepages show` and
 * `mvld doctor`.
 */
#include "cache.h"
#include "frozen.h"
#include "hugepages.h"
#include "paths.h"

#include <dirent.h>
#include <errno.h>
#include <mntent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- pools ---------------------------------------------------------------------- */

#define POOLS "/sys/kernel/mm/hugepages"
#define COPIES_KB 2048 /* the size that copies of code lie in */

static long read_number(const char *root, const char *entry, const char *file)
{
    char line[32];
    char *path = must_print("%s" POOLS "/%s/%s", root, entry, file);
    long value = read_line(path, line, sizeof line) ? -1 : atol(line);
    free(path);
    return value;
}

static int by_size(const void *a, const void *b)
{
    const struct pool *one = a, *two = b;
    return (one->size > two->size) - (one->size < two->size);
}

int pools_read(const char *root, struct pool **out)
{
    char *path = must_print("%s" POOLS, root);
    DIR *d = opendir(path);
    int n = 0, error = errno;
    struct dirent *e;
    long size;

    *out = NULL;
    free(path);
    errno = error;
    if (!d)
        return -1;
    while ((e = readdir(d))) {
        if (sscanf(e->d_name, "hugepages-%ldkB", &size) != 1)
            continue;
        *out = must_grow(*out, (size_t)n + 1, sizeof **out);
        (*out)[n++] = (struct pool){
            .size = size,
            .total = read_number(root, e->d_name, "nr_hugepages"),
            .free = read_number(root, e->d_name, "free_hugepages"),
            .reserved = read_number(root, e->d_name, "resv_hugepages"),
            .surplus = read_number(root, e->d_name, "surplus_hugepages"),
            .overcommit = read_number(root, e->d_name, "nr_overcommit_hugepages"),
        };
    }
    closedir(d);
    if (n)
        qsort(*out, (size_t)n, sizeof **out, by_size);
    return n;
}

const char *pool_size_text(long size, char *to, size_t n)
{
    if (size % (1 << 20) == 0)
        snprintf(to, n, "%ld GB", size >> 20);
    else
        snprintf(to, n, "%ld MB", size >> 10);
    return to;
}

static void report_pools(struct report *r)
{
    struct pool *pools;
    int n = pools_read(r->root, &pools);

    if (n < 0)
        report_finding(r, "hugetlb pools", FINDING_ABSENT, "a kernel with CONFIG_HUGETLBFS",
                       "%s" POOLS ": %s", r->root, strerror(errno));
    for (int i = 0; i < n; i++) {
        const struct pool *p = &pools[i];
        char *name = must_print("hugetlb %ldkB", p->size);
        int some = p->total > 0 || p->overcommit > 0;
        report_finding(r, name, some ? FINDING_OK : FINDING_ABSENT,
                       !some && p->size == COPIES_KB ? "mvld hugepages reserve 64" : NULL,
                       "%ld pages, %ld free, %ld reserved, %ld surplus, %ld more on demand",
                       p->total, p->free, p->reserved, p->surplus, p->overcommit);
        free(name);
    }
    free(pools);
}

/* ---- mounts ----------------------------------------------------------------------- */

static void report_tmpfs(struct report *r)
{
    char *path = must_print("%s/proc/%s", r->root, *r->root ? "mounts" : "self/mounts");
    FILE *f = setmntent(path, "r");
    struct mntent *m;
    unsigned n = 0;

    while (f && (m = getmntent(f))) {
        char *huge = hasmntopt(m, "huge");
        if (strcmp(m->mnt_type, "tmpfs") || !huge || strstr(huge, "huge=never"))
            continue;
        n++;
        report_finding(r, "tmpfs with huge=", FINDING_OK, NULL, "%s (%s)", m->mnt_dir, m->mnt_opts);
    }
    if (f)
        endmntent(f);
    free(path);
    if (!n)
        report_finding(r, "tmpfs with huge=", FINDING_ABSENT,
                       "mount -t tmpfs -o huge=always,mode=755 none DIRECTORY", "none");
}

/* ---- settings ------------------------------------------------------------------------ */

#define THP "/sys/kernel/mm/transparent_hugepage"

/* "always [madvise] never" -> "madvise" */
static int chosen(const char *path, char *to, size_t size)
{
    char line[128], *open, *close;
    if (read_line(path, line, sizeof line))
        return -1;
    open = strchr(line, '[');
    close = open ? strchr(open, ']') : NULL;
    if (!close)
        return -1;
    *close = 0;
    snprintf(to, size, "%s", open + 1);
    return 0;
}

static void report_thp(struct report *r, const char *name, const char *file)
{
    char mode[64];
    char *path = must_print("%s" THP "/%s", r->root, file);
    char *remedy = must_print("echo %s > %s", strcmp(file, "enabled") ? "advise" : "madvise", path);
    if (chosen(path, mode, sizeof mode))
        report_finding(r, name, FINDING_ABSENT, "a kernel with CONFIG_TRANSPARENT_HUGEPAGE",
                       "not known to this kernel");
    else if (!strcmp(mode, "never") || !strcmp(mode, "deny"))
        report_finding(r, name, FINDING_ABSENT, remedy, "%s", mode);
    else
        report_finding(r, name, FINDING_OK, NULL, "%s", mode);
    free(remedy);
    free(path);
}

/* What joins small pages in the background, where a program asked for large ones. */
static void report_khugepaged(struct report *r)
{
    char pages[32], pause[32];
    char *scanned = must_print("%s" THP "/khugepaged/pages_to_scan", r->root);
    char *sleeps = must_print("%s" THP "/khugepaged/scan_sleep_millisecs", r->root);

    if (read_line(scanned, pages, sizeof pages) || read_line(sleeps, pause, sizeof pause))
        report_finding(r, "khugepaged", FINDING_ABSENT, "a kernel with CONFIG_TRANSPARENT_HUGEPAGE",
                       "not known to this kernel");
    else
        report_finding(r, "khugepaged", FINDING_OK, NULL, "looks at %s pages every %s ms", pages,
                       pause);
    free(sleeps);
    free(scanned);
}

/* ---- what it comes to -------------------------------------------------------------------- */

static void report_policy(struct report *r, const char *name, const char *why, const char *instead,
                          const char *remedy)
{
    if (why)
        report_finding(r, name, FINDING_ABSENT, remedy, "%s; %s", why, instead);
    else
        report_finding(r, name, FINDING_OK, NULL, "tried: copies of code get such pages");
}

/* Where this user's frozen images go. */
static void report_images(struct report *r)
{
    char folder[4096] = FROZEN_SYSTEM_FOLDER;
    const char *why;

    if (cache_is_own(geteuid(), getenv("XDG_CACHE_HOME")) &&
        !path_users_cache(folder, sizeof folder, "images", &why))
        return; /* `mvld doctor' says why */
    why = hugepages_try_folder(folder);
    if (why)
        report_finding(r, "frozen images", FINDING_ABSENT, NULL,
                       "%s: %s; processes that ask for huge pages have their own", folder, why);
    else
        report_finding(r, "frozen images", FINDING_OK, NULL,
                       "%s: tried: processes can share huge pages of files there", folder);
}

void hugepages_report(struct report *r)
{
    report_pools(r);
    hugepages_mounts(r);
    report_tmpfs(r);
    report_thp(r, "THP: enabled", "enabled");
    report_thp(r, "THP: shmem_enabled", "shmem_enabled");
    report_khugepaged(r);
    if (*r->root) /* what is there can be read, and not tried */
        return;
    report_policy(r, "concat.pages=hugetlb", hugepages_try_pool(), "as with thp",
                  "mvld hugepages reserve 64");
    report_policy(r, "concat.pages=thp", hugepages_try_thp(), "small pages", NULL);
    report_images(r);
}
