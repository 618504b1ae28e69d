/* SPDX-License-Identifier: MIT
 *
 * doctor/programs.c: reports the enabled or changed programs, and whether they start under mvld.
 */
#include "tools/doctor/doctor.h"
#include "tools/enable/enable.h"

#include <stdlib.h>

static void report_program(struct report *r, const struct way *way, const struct change *c)
{
    char *remedy, *why = way_trouble(c, &remedy);

    if (why)
        report_finding(r, "changed", FINDING_PROBLEM, remedy, "%s: %s", change_program(c), why);
    else
        report_finding(r, "changed", FINDING_OK, NULL, "%s starts under mvld, by %s%s%s", change_program(c), way->name,
                       way->text ? " " : "", way->text ? c->field[CHANGE_PATH] : "");
    free(remedy);
    free(why);
}

void doctor_programs(struct report *r)
{
    char *record = changes_path();
    struct changes rows = {0};
    const char *why = record ? changes_read(record, &rows) : NULL;

    report_heading(r, "Programs");
    if (why)
        report_finding(r, "record of changes", FINDING_PROBLEM, NULL, "%s", why);
    else if (!rows.n)
        report_finding(r, "changed", FINDING_ABSENT, NULL, "none: no program is enabled");
    for (size_t i = 0; i < rows.n; i++)
        if (way_of(&rows.row[i]))
            report_program(r, way_of(&rows.row[i]), &rows.row[i]);
    changes_free(&rows);
    free(record);
}
