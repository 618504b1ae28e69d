/* SPDX-License-Identifier: MIT
 *
 * doctor/program.c: reports whether one program starts under mvld, with which passes, and whether
 * the snapshot of its next start exists.
 */
#include "loader/manager/private.h"
#include "loader/store/store.h"
#include "rimf/base/base.h"
#include "tools/cache/state.h"
#include "tools/common/paths.h"
#include "tools/doctor/doctor.h"
#include "tools/enable/enable.h"
#include "tools/interp/interp.h"
#include "tools/run/program.h"
#include "tools/run/request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One finding for each method by which it is enabled.  Returns their number. */
static size_t report_ways(struct report *r, const struct program *p, const struct changes *rows)
{
    size_t n = 0;

    for (const struct change *c = NULL; (c = changes_next(rows, c, p->path));) {
        const struct way *way = way_of(c);
        char *remedy, *why = way ? way_trouble(c, &remedy) : NULL;

        if (why)
            report_finding(r, "loader", FINDING_PROBLEM, remedy, "%s", why);
        struct program_state unit = {.why = why};
        if (way)
            state_of_unit(&unit, c);
        if (unit.why && !why)
            report_finding(r, "unit", FINDING_PROBLEM, unit.remedy, "%s", unit.why);
        if (way && !why)
            report_finding(r, "loader", FINDING_OK, NULL, "it starts under %s, by %s%s%s",
                           way->text ? "mvld" : p->interpreter, way->name, way->text ? " " : "",
                           way->text ? c->field[CHANGE_PATH] : "");
        n += way != NULL;
    }
    return n;
}

static void report_script(struct report *r, const char *name, const struct program *p)
{
    char *reader = program_of_script(p), *remedy = reader ? must_print("mvld doctor %s", reader) : NULL;

    report_finding(r, name, FINDING_ABSENT, remedy, "it is a script of %s", reader ? reader : p->interpreter);
    free(remedy);
    free(reader);
}

static void report_loader(struct report *r, const struct program *p, const char *enable)
{
    static const char *const name = "loader";
    const char *objection = program_objection(p), *essential = interp_essential(p->path);

    if (p->kind == PROGRAM_OURS)
        report_finding(r, name, FINDING_OK, NULL, "it starts under %s, by set-interp", p->interpreter);
    else if (p->kind == PROGRAM_SCRIPT)
        report_script(r, name, p);
    else if (objection)
        report_finding(r, name, FINDING_ABSENT, NULL, "it starts without mvld: %s", objection);
    else
        report_finding(r, name, FINDING_ABSENT, p->roomless || essential ? NULL : enable,
                       "it starts under %s; under mvld only by `mvld run'%s%s", *p->interpreter ? p->interpreter : "no loader",
                       essential ? ": " : "", essential ? essential : "");
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

/* Settings of earlier versions. */
static void report_gone(struct report *r, const struct pipeline *plan)
{
    for (size_t i = 0; i < plan->n; i++)
        for (size_t k = 0; k < plan->passes[i].n_settings; k++) {
            const struct mvld_setting *s = &plan->passes[i].settings[k];

            if (s->text && options_is(plan->passes[i].pass, s, MVLD_OPTION_GONE))
                report_finding(r, "options", FINDING_ABSENT, "remove the line", "%s:%u: %s.%s has no effect any more",
                               s->file, s->line, plan->passes[i].name, s->name);
        }
}

/* Returns 1 if it exists; then close `c`. */
static int open_in(struct cached *c, char **path, const char *folder, const char *key)
{
    *path = must_print("%s/%s", folder, key);
    if (!access(*path, F_OK)) {
        cached_open(c, *path, 0);
        return 1;
    }
    free(*path);
    return 0;
}

/* The snapshot of the next start is named after the program and the plan (loader/store/folder.c);
 * root's comes first. */
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

    const char *placement = pipeline_setting(plan, "placement");

    if (!n) {
        report_finding(r, "snapshot", FINDING_ABSENT, NULL, STORE_NOTHING);
    } else if (p->roomless || (placement && !strcmp(placement, "as-is"))) {
        report_finding(r, "snapshot", FINDING_ABSENT, NULL, "none can be made: libraries lie where the kernel puts them (%s)",
                       p->roomless ? "it is linked to addresses with no room near it" : "placement = as-is");
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
    char *record = changes_path(), why[512];
    char *path = shell_word(p->path);
    char *enable = must_print("mvld enable %s (mvld try %s: whether it gains)", path, path);
    struct changes rows = {0};
    struct pipeline *plan = NULL;
    size_t n = record && !changes_read(record, &rows) ? report_ways(r, p, &rows) : 0;
    const char *wrong = request_apply(&(struct request){0}, p);
    char *remedy = must_print("mvld %s %s", n ? "enable" : "build", path);

    if (!n)
        report_loader(r, p, enable);
    if (!program_objection(p) && p->kind != PROGRAM_SCRIPT) {
        if (!wrong && request_plan(p, &plan, why, sizeof why))
            wrong = why;
        report_plan(r, plan, wrong, p->kind == PROGRAM_OURS ? remedy : NULL);
        if (plan) {
            report_gone(r, plan);
            report_snapshot(r, p, plan, remedy);
        }
    }
    pipeline_free(plan);
    changes_free(&rows);
    free(remedy);
    free(enable);
    free(path);
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
