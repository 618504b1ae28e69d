/* SPDX-License-Identifier: MIT
 *
 * doctor/programs.c: reports the loader, and whether the enabled or changed programs start under it, from a snapshot.
 */
#include "tools/common/paths.h"
#include "tools/doctor/doctor.h"
#include "tools/enable/enable.h"
#include "tools/run/itself.h"

#include <stdlib.h>

static void report_program(struct report *r, const struct way *way, const struct change *c)
{
    char *remedy, *why = way_trouble(c, &remedy), *trouble = why ? NULL : enable_trouble(c, &remedy);

    if (why || trouble)
        report_finding(r, "changed", why ? FINDING_PROBLEM : FINDING_ABSENT, remedy, "%s: %s", change_program(c),
                       why ? why : trouble);
    else
        report_finding(r, "changed", FINDING_OK, NULL, "%s starts under mvld, by %s%s%s", change_program(c), way->name,
                       way->text ? " " : "", way->text ? c->field[CHANGE_PATH] : "");
    free(remedy);
    free(trouble);
    free(why);
}

static void report_loader(struct report *r)
{
    const char *loader = path_loader(), *damage = loader_damage(loader);

    if (damage)
        report_finding(r, "loader", FINDING_PROBLEM, "install mvld again", "%s: %s", loader, damage);
    else
        report_finding(r, "loader", FINDING_OK, NULL, "%s", loader);
}

void doctor_programs(struct report *r)
{
    char *record = changes_path();
    struct changes rows = {0};
    const char *why = record ? changes_read(record, &rows) : NULL;

    report_heading(r, "Programs");
    report_loader(r);
    if (why)
        report_finding(r, "record of changes", FINDING_PROBLEM, "correct it: until then nothing is enabled or taken back", "%s", why);
    else if (!rows.n)
        report_finding(r, "changed", FINDING_ABSENT, NULL, "none: no program is enabled");
    for (size_t i = 0; i < rows.n; i++)
        if (way_of(&rows.row[i]))
            report_program(r, way_of(&rows.row[i]), &rows.row[i]);
    changes_free(&rows);
    free(record);
}
