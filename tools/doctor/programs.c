/* SPDX-License-Identifier: MIT
 *
 * doctor/programs.c: the programs that set-interp changed, and whether their loader is there.
 */
#include "tools/changes/changes.h"
#include "tools/doctor/doctor.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void report_program(struct report *r, const struct change *c)
{
    const char *path = c->field[CHANGE_PATH], *loader = c->field[CHANGE_LOADER];
    if (access(path, F_OK))
        report_finding(r, "changed", FINDING_ABSENT, "mvld-restore --all forgets it", "%s is gone", path);
    else if (!change_stands("", c))
        report_finding(r, "changed", FINDING_PROBLEM, "mvld set-interp it again, or mvld-restore --all",
                       "%s was replaced since, and starts without mvld", path);
    else if (access(loader, X_OK))
        report_finding(r, "changed", FINDING_PROBLEM, "mvld-restore --all",
                       "%s does not start: there is no %s", path, loader);
    else
        report_finding(r, "changed", FINDING_OK, NULL, "%s starts under %s", path, loader);
}

void doctor_programs(struct report *r)
{
    char *record = changes_path("");
    struct changes rows = {0};
    const char *why = record ? changes_read(record, &rows) : NULL;

    report_heading(r, "Programs");
    if (why)
        report_finding(r, "record of changes", FINDING_PROBLEM, NULL, "%s", why);
    else if (!rows.n)
        report_finding(r, "changed", FINDING_ABSENT, NULL, "none: set-interp changed no program");
    for (size_t i = 0; i < rows.n; i++)
        if (!strcmp(rows.row[i].field[CHANGE_KIND], "interp"))
            report_program(r, &rows.row[i]);
    changes_free(&rows);
    free(record);
}
