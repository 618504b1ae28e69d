/* SPDX-License-Identifier: MIT
 *
 * enable/configured.c: makes analyses and snapshots of programs that files of configuration name by
 * path with on-miss = build, and that `mvld enable` did not enable.  A start never analyses, so
 * that this happens in the background (`mvld enable --stale`).
 */
#include "loader/manager/pipeline.h"
#include "tools/config/make.h"
#include "tools/enable/enable.h"
#include "tools/run/program.h"
#include "tools/run/request.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether the configuration as programs read it has on-miss = build for this one, and passes can
 * run in it. */
static int wants_build(const char *path)
{
    struct pipeline *plan = NULL;
    struct program p;
    char why[512];

    if (program_open(&p, path) || program_objection(&p) || request_plan(&p, &plan, why, sizeof why) || !plan)
        return 0;
    const char *miss = pipeline_setting(plan, "on-miss");
    int wants = miss && !strcmp(miss, "build");
    pipeline_free(plan);
    return wants;
}

/* If an analysis fails, the snapshot is built without it, so that the next run does nothing. */
static int build_once(const char *path)
{
    if (!wants_build(path) || enable_has_snapshot(path))
        return 0;
    progress("analysing %s and its libraries\n", path);
    enable_run(NULL, (const char *const[]){"analyze", "--program", path, NULL}, NULL);
    return enable_run(NULL, (const char *const[]){"build", path, NULL}, NULL);
}

static int is_enabled(const struct changes *rows, const char *path)
{
    char *program = realpath(path, NULL);
    int is = 0;
    for (const struct change *c = NULL; program && (c = changes_next(rows, c, program));)
        is |= strcmp(c->field[CHANGE_KIND], "interp") != 0;
    free(program);
    return is;
}

int enable_build_configured(const struct changes *rows)
{
    struct config_made made;
    int failed = config_make(&made, geteuid() != 0, NULL) && made.folder;

    if (failed)
        complain("enable", "%s", made.why);
    for (size_t i = 0; i < made.n_programs; i++)
        if (!is_enabled(rows, made.programs[i]))
            failed |= build_once(made.programs[i]);
    config_made_free(&made);
    return failed ? TOOL_FAILED : TOOL_OK;
}
