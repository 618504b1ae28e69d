/* SPDX-License-Identifier: MIT
 *
 * doctor_machine.c: processor, performance counters, huge pages, overcommit.
 */
#include "doctor.h"

#include <cpuid.h>
#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <mntent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- processor ------------------------------------------------------------------- */

static void report_features(struct report *r)
{
    unsigned a, b = 0, c, d = 0;
    char brand[49] = "";

    unsigned leaves = (unsigned)__get_cpuid_max(0x80000000, NULL);
    for (unsigned i = 0; i < 3 && leaves >= 0x80000004; i++) {
        unsigned words[4];
        __get_cpuid(0x80000002 + i, &words[0], &words[1], &words[2], &words[3]);
        memcpy(brand + 16 * i, words, 16);
    }
    report_finding(r, "processor", FINDING_OK, NULL, "%s", brand + strspn(brand, " "));
    __get_cpuid_count(7, 0, &a, &b, &c, &d);
    /* CPUID.(7,0): EBX bit 9 ERMS, EDX bit 4 FSRM. */
    report_finding(r, "FSRM", d >> 4 & 1 ? FINDING_OK : FINDING_ABSENT, NULL,
                   "fast short rep movs: %s; enhanced rep movs (ERMS): %s",
                   d >> 4 & 1 ? "yes" : "no", b >> 9 & 1 ? "yes" : "no");
}

static int try_counter(unsigned type, unsigned long long config)
{
    struct perf_event_attr attr = {.size = sizeof attr, .type = type, .config = config};
    attr.exclude_kernel = attr.exclude_hv = 1;
    long fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
    int error = fd < 0 ? errno : 0;
    if (fd >= 0)
        close((int)fd);
    return error;
}

static void report_counter(struct report *r, const char *name, unsigned type,
                           unsigned long long config)
{
    char paranoid[16] = "unknown";
    int error = try_counter(type, config);
    const char *remedy = NULL;

    read_line("/proc/sys/kernel/perf_event_paranoid", paranoid, sizeof paranoid);
    if (error == EACCES || error == EPERM)
        remedy = "sysctl kernel.perf_event_paranoid=2";
    else if (error == ENOENT || error == EOPNOTSUPP || error == ENODEV)
        remedy = "a virtual machine with a PMU, or a real one";
    else if (error == ENOSYS)
        remedy = "a kernel with CONFIG_PERF_EVENTS; no seccomp filter that refuses it";
    if (error)
        report_finding(r, name, FINDING_ABSENT, remedy, "%s (perf_event_paranoid is %s)",
                       error == ENOENT ? "not on this processor" : strerror(error), paranoid);
    else
        report_finding(r, name, FINDING_OK, NULL, "can be counted");
}

void doctor_processor(struct report *r)
{
    report_heading(r, "Processor");
    report_features(r);
    report_counter(r, "counter: cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES);
    report_counter(r, "counter: branch misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES);
    report_counter(r, "counter: iTLB misses", PERF_TYPE_HW_CACHE,
                   PERF_COUNT_HW_CACHE_ITLB | PERF_COUNT_HW_CACHE_OP_READ << 8 |
                       PERF_COUNT_HW_CACHE_RESULT_MISS << 16);
}

/* ---- memory ------------------------------------------------------------------------ */

static long read_number(const char *folder, const char *entry, const char *file)
{
    char line[32];
    char *path = must_print("%s/%s/%s", folder, entry, file);
    long value = read_line(path, line, sizeof line) ? -1 : atol(line);
    free(path);
    return value;
}

static void report_pools(struct report *r)
{
    static const char folder[] = "/sys/kernel/mm/hugepages";
    static const char prefix[] = "hugepages-";
    DIR *d = opendir(folder);
    struct dirent *e;

    if (!d) {
        report_finding(r, "hugetlb pools", FINDING_ABSENT, "a kernel with CONFIG_HUGETLBFS",
                       "%s: %s", folder, strerror(errno));
        return;
    }
    while ((e = readdir(d))) {
        if (strncmp(e->d_name, prefix, sizeof prefix - 1))
            continue;
        long total = read_number(folder, e->d_name, "nr_hugepages");
        long free_pages = read_number(folder, e->d_name, "free_hugepages");
        long more = read_number(folder, e->d_name, "nr_overcommit_hugepages");
        char *name = must_print("hugetlb %s", e->d_name + sizeof prefix - 1);
        int some = total > 0 || more > 0;
        int is_2m = !strcmp(e->d_name, "hugepages-2048kB");
        report_finding(r, name, some ? FINDING_OK : FINDING_ABSENT,
                       !some && is_2m ? "sysctl vm.nr_hugepages=64" : NULL,
                       "%ld pages, %ld free, %ld more on demand", total, free_pages, more);
        free(name);
    }
    closedir(d);
}

static void report_mounts(struct report *r)
{
    FILE *f = setmntent("/proc/self/mounts", "r");
    struct mntent *m;
    unsigned hugetlb = 0, tmpfs = 0;

    while (f && (m = getmntent(f))) {
        char *huge = hasmntopt(m, "huge");
        int is_hugetlb = !strcmp(m->mnt_type, "hugetlbfs");
        if (!is_hugetlb && (strcmp(m->mnt_type, "tmpfs") || !huge || strstr(huge, "huge=never")))
            continue;
        hugetlb += is_hugetlb;
        tmpfs += !is_hugetlb;
        report_finding(r, is_hugetlb ? "hugetlbfs mount" : "tmpfs with huge=", FINDING_OK, NULL,
                       "%s (%s)", m->mnt_dir, m->mnt_opts);
    }
    if (f)
        endmntent(f);
    if (!hugetlb)
        report_finding(r, "hugetlbfs mount", FINDING_ABSENT,
                       "mount -t hugetlbfs none /dev/hugepages", "none");
    if (!tmpfs)
        report_finding(r, "tmpfs with huge=", FINDING_ABSENT,
                       "mount -t tmpfs -o huge=always,mode=755 none DIRECTORY", "none");
}

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
    char *path = must_print("/sys/kernel/mm/transparent_hugepage/%s", file);
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
    report_mounts(r);
    report_thp(r, "THP: enabled", "enabled");
    report_thp(r, "THP: shmem_enabled", "shmem_enabled");
    report_overcommit(r);
}
