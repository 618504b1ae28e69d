/* SPDX-License-Identifier: MIT
 *
 * doctor/memory.c: huge pages, overcommit.
 */
#include "rimf/base/cache.h"
#include "tools/doctor/doctor.h"
#include "rimf/store/manifest.h"
#include "tools/common/paths.h"

#include <dirent.h>
#include <errno.h>
#include <mntent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef MVLD_HUGETLBFS
#include <dlfcn.h>
#include <hugetlbfs.h>
#endif

/* ---- pools ---------------------------------------------------------------------- */

#define POOLS "/sys/kernel/mm/hugepages"
#define MOVED "hugepages-2048kB" /* the page size of moved code */
#define MORE_MOVED "echo 64 > " POOLS "/" MOVED "/nr_hugepages"

/* -1 if the kernel does not tell. */
static long read_number(const char *pool, const char *file)
{
    char line[32];
    char *path = must_print(POOLS "/%s/%s", pool, file);
    long value = read_line(path, line, sizeof line) ? -1 : atol(line);
    free(path);
    return value;
}

static void report_pool(struct report *r, const char *pool)
{
    char *name = must_print("hugetlb %s", strchr(pool, '-') + 1);
    long total = read_number(pool, "nr_hugepages");
    long on_demand = read_number(pool, "nr_overcommit_hugepages");
    int some = total > 0 || on_demand > 0;

    report_finding(r, name, some ? FINDING_OK : FINDING_ABSENT,
                   !some && !strcmp(pool, MOVED) ? MORE_MOVED : NULL,
                   "%ld pages, %ld free, %ld reserved, %ld surplus, %ld more on demand", total,
                   read_number(pool, "free_hugepages"), read_number(pool, "resv_hugepages"),
                   read_number(pool, "surplus_hugepages"), on_demand);
    free(name);
}

static int is_pool(const struct dirent *e)
{
    return !strncmp(e->d_name, "hugepages-", strlen("hugepages-"));
}

static void report_pools(struct report *r)
{
    struct dirent **pools;
    int n = scandir(POOLS, &pools, is_pool, versionsort);

    if (n < 0) {
        report_finding(r, "hugetlb pools", FINDING_ABSENT, "a kernel with CONFIG_HUGETLBFS",
                       POOLS ": %s", strerror(errno));
        return;
    }
    for (int i = 0; i < n; i++) {
        report_pool(r, pools[i]->d_name);
        free(pools[i]);
    }
    free(pools);
}

/* ---- mounts ----------------------------------------------------------------------- */

/* libhugetlbfs knows the mounts of hugetlbfs and the sizes that a program can have, and skips
 * mounts that this user cannot write to.  It is loaded on demand: its constructor reads half of
 * /proc. */
#ifdef MVLD_HUGETLBFS

#define SIZES 16

static void report_mount(struct report *r, long size, const char *path)
{
    int giga = size % (1 << 30) == 0;
    char *name = must_print("hugetlbfs %ld %s", size >> (giga ? 30 : 20), giga ? "GB" : "MB");

    if (path)
        report_finding(r, name, FINDING_OK, NULL, "%s", path);
    else
        report_finding(r, name, FINDING_ABSENT, NULL, "no mount that this user can write");
    free(name);
}

static void report_hugetlbfs(struct report *r)
{
    long sizes[SIZES];
    int (*get_sizes)(long *, int);
    const char *(*find_path)(long);
    void *library;
    int n;

    setenv("HUGETLB_VERBOSE", "0", 0); /* our lines replace its output */
    library = dlopen("libhugetlbfs.so.0", RTLD_NOW);
    *(void **)&get_sizes = library ? dlsym(library, "gethugepagesizes") : NULL;
    *(void **)&find_path = library ? dlsym(library, "hugetlbfs_find_path_for_size") : NULL;
    if (!get_sizes || !find_path) {
        report_finding(r, "hugetlbfs", FINDING_ABSENT, "apt-get install libhugetlbfs0",
                       "libhugetlbfs, which finds mounts, is not there");
        return;
    }
    n = get_sizes(sizes, SIZES);
    for (int i = 0; i < n; i++)
        report_mount(r, sizes[i], find_path(sizes[i]));
    dlclose(library);
}

#else

static void report_hugetlbfs(struct report *r)
{
    report_finding(r, "hugetlbfs", FINDING_ABSENT,
                   "apt-get install libhugetlbfs-dev, and build mvld again",
                   "mvld was built without libhugetlbfs, which finds mounts");
}

#endif

static void report_tmpfs(struct report *r)
{
    FILE *f = setmntent("/proc/self/mounts", "r");
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
    char *path = must_print(THP "/%s", file);
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

/* Reports khugepaged, which joins small pages in the background if a program asked for large ones. */
static void report_khugepaged(struct report *r)
{
    char pages[32], pause[32];

    if (read_line(THP "/khugepaged/pages_to_scan", pages, sizeof pages) ||
        read_line(THP "/khugepaged/scan_sleep_millisecs", pause, sizeof pause))
        report_finding(r, "khugepaged", FINDING_ABSENT, "a kernel with CONFIG_TRANSPARENT_HUGEPAGE",
                       "not known to this kernel");
    else
        report_finding(r, "khugepaged", FINDING_OK, NULL, "looks at %s pages every %s ms", pages,
                       pause);
}

/* ---- what it comes to -------------------------------------------------------------------- */

static void report_policy(struct report *r, const char *name, const char *why, const char *instead,
                          const char *remedy)
{
    if (why)
        report_finding(r, name, FINDING_ABSENT, remedy, "%s; %s", why, instead);
    else
        report_finding(r, name, FINDING_OK, NULL, "tried: moved code gets such pages");
}

/* Reports the folder of this user's snapshots. */
static void report_snapshots(struct report *r)
{
    char folder[4096] = MANIFEST_SYSTEM_FOLDER;
    const char *why;

    if (cache_is_own(geteuid(), getenv("XDG_CACHE_HOME")) &&
        !path_users_cache(folder, sizeof folder, "snapshots", &why))
        return; /* `mvld doctor' says why */
    why = hugepages_try_folder(folder);
    if (why)
        report_finding(r, "huge pages of snapshots", FINDING_ABSENT, NULL,
                       "%s: %s; processes that ask for huge pages have their own", folder, why);
    else
        report_finding(r, "huge pages of snapshots", FINDING_OK, NULL,
                       "%s: tried: processes can share huge pages of files there", folder);
}

static void report_overcommit(struct report *r)
{
    char mode[16];
    if (read_line("/proc/sys/vm/overcommit_memory", mode, sizeof mode))
        report_finding(r, "vm.overcommit_memory", FINDING_ABSENT, NULL, "cannot be read");
    else if (*mode == '2')
        report_finding(r, "vm.overcommit_memory", FINDING_ABSENT, "sysctl vm.overcommit_memory=0",
                       "2: large reservations may be refused");
    else
        report_finding(r, "vm.overcommit_memory", FINDING_OK, NULL, "%s", mode);
}

void doctor_memory(struct report *r)
{
    report_heading(r, "Memory");
    report_pools(r);
    report_hugetlbfs(r);
    report_tmpfs(r);
    report_thp(r, "THP: enabled", "enabled");
    report_thp(r, "THP: shmem_enabled", "shmem_enabled");
    report_khugepaged(r);
    report_policy(r, "concat.pages=hugetlb", hugepages_try_pool(), "as with thp", MORE_MOVED);
    report_policy(r, "concat.pages=thp", hugepages_try_thp(), "small pages", NULL);
    report_snapshots(r);
    report_overcommit(r);
}
