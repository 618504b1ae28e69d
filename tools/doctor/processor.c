/* SPDX-License-Identifier: MIT
 *
 * doctor/processor.c: processor, performance counters.
 */
#include "tools/doctor/doctor.h"

#include <cpuid.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

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
