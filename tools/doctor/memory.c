/* SPDX-License-Identifier: MIT
 *
 * doctor/memory.c: huge pages, overcommit.
 */
#include "rimf/base/cache.h"
#include "tools/doctor/doctor.h"
#include "rimf/store/manifest.h"
#include "tools/common/paths.h"

#include <mntent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- mounts ----------------------------------------------------------------------- */

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

static void report_thp_pages(struct report *r)
{
    const char *why = hugepages_try_thp();

    if (why)
        report_finding(r, "concat.pages=thp", FINDING_ABSENT, NULL, "%s; small pages", why);
    else
        report_finding(r, "concat.pages=thp", FINDING_OK, NULL, "tried: moved code gets such pages");
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
    report_tmpfs(r);
    report_thp(r, "THP: enabled", "enabled");
    report_thp(r, "THP: shmem_enabled", "shmem_enabled");
    report_khugepaged(r);
    report_thp_pages(r);
    report_snapshots(r);
    report_overcommit(r);
}
