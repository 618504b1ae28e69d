/* SPDX-License-Identifier: MIT
 *
 * doctor_memory.c: huge pages, overcommit.
 */
#include "hugepages.h"

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
    hugepages_report(r);
    report_overcommit(r);
}
