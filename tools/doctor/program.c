/* SPDX-License-Identifier: MIT
 *
 * doctor/program.c: one program: whether it starts under mvld, with which passes, and whether there is the
 * snapshot that its next start looks for.
 */
#include "loader/manager/private.h"
#include "rimf/base/hash.h"
#include "rimf/base/base.h"
#include "tools/cache/state.h"
#include "tools/changes/changes.h"
#include "tools/common/paths.h"
#include "tools/doctor/doctor.h"
#include "tools/run/program.h"
#include "tools/run/request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the record of changes has of its file, or NULL. */
static const struct change *recorded(const struct changes *rows, const char *path)
{
    for (size_t i = 0; i < rows->n; i++)
        if (!strcmp(rows->row[i].field[CHANGE_KIND], "interp") && !strcmp(rows->row[i].field[CHANGE_PATH], path))
            return &rows->row[i];
    return NULL;
}

static void report_loader(struct report *r, const struct program *p, const struct change *c, const char *enable)
{
    static const char *const name = "loader";
    const char *objection = program_objection(p);

    if (c && !change_stands("", c))
        report_finding(r, name, FINDING_PROBLEM, enable, "it was replaced since set-interp, and starts without mvld");
    else if (c && access(c->field[CHANGE_LOADER], X_OK))
        report_finding(r, name, FINDING_PROBLEM, "mvld-restore --all", "it does not start: there is no %s",
                       c->field[CHANGE_LOADER]);
    else if (p->kind == PROGRAM_OURS || c)
        report_finding(r, name, FINDING_OK, NULL, "it starts under %s, by set-interp", p->interpreter);
    else if (p->kind == PROGRAM_SCRIPT)
        report_finding(r, name, FINDING_ABSENT, "mvld doctor of its interpreter", "it is a script of %s", p->interpreter);
    else if (objection)
        report_finding(r, name, FINDING_ABSENT, NULL, "it starts without mvld: %s", objection);
    else
        report_finding(r, name, FINDING_ABSENT, enable, "it starts under %s; under mvld only by `mvld run'",
                       *p->interpreter ? p->interpreter : "no loader");
}

static void report_plan(struct report *r, const struct pipeline *plan, const char *wrong, const char *enable)
{
    char *list = must_print("%s", "");

    for (size_t i = 0; plan && i < plan->n; i++) {
        char *longer = must_print("%s%s%s", list, i ? ", " : "", plan->passes[i].name);
        free(list);
        list = longer;
    }
    if (wrong)
        report_finding(r, "passes", FINDING_PROBLEM, "correct it: until then no pass runs", "%s", wrong);
    else if (!plan)
        report_finding(r, "passes", FINDING_ABSENT, enable, "no configuration names passes for it");
    else
        report_finding(r, "passes", FINDING_OK, NULL, "%s (%s:%u)", list,
                       plan->config.file ? plan->config.file : "the environment", plan->config.line);
    free(list);
}

/* 1: it is there, and `c` is to be closed. */
static int open_in(struct cached *c, char **path, const char *folder, const char *key)
{
    *path = must_print("%s/%s", folder, key);
    if (!access(*path, F_OK)) {
        cached_open(c, *path, 0, 0);
        return 1;
    }
    free(*path);
    return 0;
}

/* The one that a start looks for is called after the program and the plan (loader/store/folder.c); root's comes
 * first. */
static void report_snapshot(struct report *r, const struct program *p, const struct pipeline *plan, const char *remedy)
{
    size_t n = pipeline_in_snapshot(plan);
    char *key = must_print("%016lx-%016lx", (unsigned long)rimf_hash(p->path, strlen(p->path)),
                           (unsigned long)pipeline_fingerprint(plan, n));
    enum finding_state missing = p->kind == PROGRAM_OURS ? FINDING_PROBLEM : FINDING_ABSENT;
    char users[4096], *path;
    const char *wrong;
    struct cached c;
    uint64_t code = 0;

    if (!n) {
        report_finding(r, "snapshot", FINDING_ABSENT, NULL, "none can hold the work of these passes");
    } else if (!open_in(&c, &path, MANIFEST_SYSTEM_FOLDER, key) &&
               !(path_users_cache(users, sizeof users, "snapshots", &wrong) && open_in(&c, &path, users, key))) {
        report_finding(r, "snapshot", missing, remedy, "there is none for these passes and options");
    } else {
        for (uint32_t i = 0; c.state == CACHE_GOOD && i < c.file.view.header->n_texts; i++)
            code += c.file.view.texts[i].size;
        if (c.state == CACHE_GOOD)
            report_finding(r, "snapshot", FINDING_OK, NULL, "it fits: %.1f MiB of code, %s", (double)code / (1 << 20), path);
        else
            report_finding(r, "snapshot", c.state == CACHE_STALE ? FINDING_ABSENT : missing, remedy, "%s: %s",
                           c.state == CACHE_STALE ? "starts take it, but it is stale" : "no start takes it", c.why);
        cached_close(&c);
        free(path);
    }
    free(key);
}

static void report_all(struct report *r, struct program *p)
{
    char *record = changes_path(""), why[512];
    char *enable = must_print("mvld enable %s (mvld try %s: whether it gains)", p->path, p->path);
    struct changes rows = {0};
    struct pipeline *plan = NULL;
    const struct change *c = record && !changes_read(record, &rows) ? recorded(&rows, p->path) : NULL;
    const char *wrong = request_apply(&(struct request){0}, p);
    char *remedy = must_print("mvld %s %s", c ? "enable" : "build", p->path);

    report_loader(r, p, c, c ? remedy : enable);
    if (!program_objection(p) && p->kind != PROGRAM_SCRIPT) {
        if (!wrong && request_plan(p, &plan, why, sizeof why))
            wrong = why;
        report_plan(r, plan, wrong, p->kind == PROGRAM_OURS ? remedy : NULL);
        if (plan)
            report_snapshot(r, p, plan, remedy);
    }
    pipeline_free(plan);
    changes_free(&rows);
    free(remedy);
    free(enable);
    free(record);
}

int doctor_program(struct report *r, const char *name)
{
    char *path = program_find(name);
    struct program p;

    if (!path || program_open(&p, path)) {
        complain("doctor", "%s: %s", name, strerror(errno));
        return TOOL_FAILED;
    }
    program_follow(&p);
    report_heading(r, p.path);
    report_all(r, &p);
    free(p.path);
    free(path);
    return TOOL_OK;
}
