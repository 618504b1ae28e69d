/* SPDX-License-Identifier: MIT
 *
 * enable/configured.c: programs that files of configuration name by path, though `mvld enable` did
 * not enable them.  With on-miss = build they get analyses and snapshots: a start never analyses, so
 * that this happens in the background (`mvld enable --stale`).
 */
#include "loader/manager/pipeline.h"
#include "mvld/pass.h"
#include "tools/config/make.h"
#include "tools/enable/enable.h"
#include "tools/run/program.h"
#include "tools/run/request.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Fills in what the configuration, as programs read it, wants of this one.  0: passes do not run in
 * it, or a snapshot cannot hold their work. */
static int look_at(struct configured *c)
{
    struct pipeline *plan = NULL;
    struct program p;

    if (program_open(&p, c->program) || program_objection(&p))
        return 0;
    if (request_plan(&p, &plan, c->wrong, sizeof c->wrong))
        return 1;
    *c->wrong = 0;
    if (!plan)
        return 0;
    const char *miss = pipeline_setting(plan, "on-miss");
    int holds = pipeline_in_snapshot(plan) > 0;
    c->builds = miss && !strcmp(miss, "build");
    c->is_plain_without = miss && strcmp(miss, "transform") != 0;
    c->analyses = (pipeline_flags(plan) & MVLD_PASS_ANALYSIS) != 0;
    pipeline_free(plan);
    return holds;
}

const char *enable_each_configured(int (*visit)(void *, const struct configured *), void *cookie, int *status)
{
    struct config_made made;
    const char *why = config_make(&made, geteuid() != 0, NULL) && made.folder ? must_print("%s", made.why) : NULL;

    for (size_t i = 0; i < made.n_programs; i++) {
        struct configured c = {.program = made.programs[i]};
        size_t same = 0;
        while (strcmp(made.programs[same], c.program))
            same++;
        if (same == i && look_at(&c))
            *status |= visit(cookie, &c);
    }
    config_made_free(&made);
    return why;
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

struct job {
    const struct changes *rows;
    int *built;
};

/* If an analysis fails, the snapshot is built without it. */
static int build(void *cookie, const struct configured *c)
{
    const struct job *job = cookie;
    const char *path = c->program;
    struct timespec now = tried_now();

    if (*c->wrong || !c->builds || is_enabled(job->rows, path) || tried_in_vain(path) || enable_has_snapshot(path))
        return TOOL_OK;
    progress("analysing %s and its libraries\n", path);
    enable_run(NULL, (const char *const[]){"analyze", "--program", path, NULL}, NULL);
    int failed = enable_run(NULL, (const char *const[]){"build", path, NULL}, NULL);
    tried_note(path, &now, failed || !enable_has_snapshot(path));
    if (failed)
        complain("enable", "%s: no snapshot of it can be built; tried again when one of its files changes", path);
    *job->built += !failed;
    return failed;
}

int enable_build_configured(const struct changes *rows, int *built)
{
    int status = TOOL_OK;
    const char *why = enable_each_configured(build, &(struct job){rows, built}, &status);

    if (why)
        complain("enable", "%s", why);
    return why || status ? TOOL_FAILED : TOOL_OK;
}
