/* SPDX-License-Identifier: MIT
 *
 * enable/status.c: `mvld status`: reports which programs start under mvld.
 */
#include "tools/attach/which.h"
#include "tools/cache/items.h"
#include "tools/cache/print.h"
#include "tools/common/tools.h"
#include "tools/enable/enable.h"
#include "tools/run/program.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char status_usage[] =
    "Usage: mvld status [--json] [PROGRAM... | -p PID...]\n"
    "\n"
    "Lists the programs that this user or root enabled or changed by set-interp: in which way they\n"
    "start under mvld, whether their snapshot is applied, and the command that mends what is not as it\n"
    "should be; then those that this user's configuration names by path, and other programs' snapshots\n"
    "that no start takes or that analyses have come for.  Each program is started as far as that shows;\n"
    "nothing of it runs.  Of a unit that runs, its process is looked at, too.\n"
    "\n"
    "  -p PID  instead, what mvld did in this process, which goes on; again for more\n"
    "  --json  as JSON\n"
    "  --help  this text\n"
    "\n"
    "Exit code: 0; 1 when one of them does not start under mvld, or not from a snapshot; 2 for wrong\n"
    "usage.\n";

/* ---- the list -------------------------------------------------------------------------- */

/* `c` is NULL for a program that is in no record. */
static void print_json(struct json *j, const char *program, const struct change *c, const struct program_state *s)
{
    const struct way *way = c ? way_of(c) : NULL;
    json_begin(j, NULL, '{');
    json_string(j, "program", program);
    json_string(j, "by", way ? way->name : s->by);
    json_string(j, "made", way && way->text ? c->field[CHANGE_PATH] : NULL);
    json_string(j, "loader", way && !way->text ? c->field[CHANGE_LOADER] : NULL);
    json_bool(j, "applied", s->snapshot && !(s->process && s->why));
    json_string(j, "snapshot", s->snapshot);
    s->process ? json_signed(j, "process", s->process) : json_string(j, "process", NULL);
    json_unsigned(j, "code", s->code);
    json_unsigned(j, "size", s->size);
    json_string(j, "trouble", s->why);
    json_string(j, "remedy", s->remedy);
    json_end(j, '}');
}

static void print_snapshot(int of_unit, const struct program_state *s)
{
    printf("snapshot of %.1f MiB of code, on disk %.1f MiB", cache_mib(s->code), cache_mib(s->size));
    if (s->process)
        fputs(", which its process uses", stdout);
    else if (s->other)
        printf("; not tried under the unit's settings: its process %d runs another file", s->other);
    else if (of_unit)
        fputs("; not tried under the unit's settings: it does not run", stdout);
    putchar('\n');
}

static void print_text(const char *program, const struct change *c, const struct program_state *s)
{
    const struct way *way = c ? way_of(c) : NULL;
    print_name(stdout, program);
    fputs(": ", stdout);
    if (way) {
        printf("%s%s", way->name, way->text ? " " : "");
        print_name(stdout, way->text ? c->field[CHANGE_PATH] : "");
        fputs(", ", stdout);
    } else if (s->by) {
        printf("%s, ", s->by);
    }
    if (s->why)
        printf("%s%s%s\n", s->why, s->remedy ? " -> " : "", s->remedy ? s->remedy : "");
    else if (!s->snapshot)
        puts("no snapshot: its passes run at each start");
    else
        print_snapshot(way && way->enter, s);
}

static int report(const struct change *c, struct json *j)
{
    struct program_state s;

    state_of(&s, c);
    state_of_unit(&s, c);
    (j ? print_json(j, change_program(c), c, &s) : print_text(change_program(c), c, &s));
    int status = s.why ? TOOL_FAILED : TOOL_OK;
    state_free(&s);
    return status;
}

void enable_report(struct json *j, const char *program)
{
    char *record = changes_path();
    struct changes rows = {0};
    int n = 0;
    if (record && !changes_read(record, &rows))
        for (const struct change *c = NULL; (c = changes_next(&rows, c, program));)
            if (way_of(c)) {
                report(c, j);
                n++;
            }
    if (!n)
        print_json(j, program, NULL, &(struct program_state){.why = "it is not enabled"});
    changes_free(&rows);
    free(record);
}

/* Reports a snapshot of a program that is in no record, if no start uses it or it is stale. */
static void report_other(const struct cached *c, struct json *j)
{
    const char *program = c->file.map ? c->file.view.names + c->file.view.objects[0].name : c->path;
    struct program_state s = {.why = c->why, .remedy = cached_remedy(c)};

    (j ? print_json(j, program, NULL, &s) : print_text(program, NULL, &s));
    free(s.remedy);
}

/* Records of changes: this user's, and the machine's. */
enum { RECORDS = 2 };

struct listing {
    const struct changes *records;
    char **names; /* those asked for; with 0, all */
    int n_names;
    struct json *json; /* or NULL */
    char **configured; /* the programs listed, though they are in no record */
    size_t n_configured;
};

static int is_recorded(const struct changes *records, const char *program)
{
    int is = 0;
    for (int i = 0; i < RECORDS; i++)
        is |= changes_next(&records[i], NULL, program) != NULL;
    return is;
}

static int is_listed(const struct listing *l, const char *program)
{
    int is = is_recorded(l->records, program);
    for (size_t i = 0; i < l->n_configured; i++)
        is |= !strcmp(l->configured[i], program);
    return is;
}

/* `l` lists what was reported before. */
static void report_others(const struct listing *l)
{
    struct cache_items items = {0};

    cache_snapshots_add(&items);
    for (size_t i = 0; i < items.n; i++) {
        struct cached c;
        cached_open(&c, items.at[i].path, 0);
        if (c.state != CACHE_GOOD && !(c.file.map && is_listed(l, c.file.view.names + c.file.view.objects[0].name)))
            report_other(&c, l->json);
        cached_close(&c);
    }
    cache_items_free(&items);
}

static int is_named(const struct changes *rows, const char *program, char **names, int n)
{
    int is = 0;
    for (int i = 0; i < n && !is; i++) {
        char *named = enable_program(rows, names[i]);
        is = !strcmp(program, named);
        free(named);
    }
    return is;
}

static int is_roomless(const char *program)
{
    struct program p;
    int is = !program_open(&p, program) && p.roomless;
    free(p.path);
    return is;
}

/* One that the configuration names by path. */
static int report_configured(void *listing, const struct configured *c)
{
    struct listing *l = listing;
    struct program_state s = {.by = "configuration"};
    char *program = realpath(c->program, NULL);

    if (!program || is_listed(l, program) ||
        (l->n_names && !is_named(&l->records[0], program, l->names, l->n_names))) {
        free(program);
        return TOOL_OK;
    }
    l->configured = must_grow(l->configured, l->n_configured + 1, sizeof *l->configured);
    l->configured[l->n_configured++] = program;
    if (!*c->wrong)
        state_try(&s, NULL, c->program);
    if (s.why && !s.snapshot && !c->is_plain_without) {
        free(s.why);
        s.why = NULL;
    }
    if (s.why && !is_roomless(c->program))
        s.remedy = cached_build(c->program, c->analyses);
    if (*c->wrong) {
        s.why = must_print("no pass runs: %s", c->wrong);
        s.remedy = must_print("correct it, and mvld config%s", geteuid() ? " --user" : "");
    }
    (l->json ? print_json(l->json, c->program, NULL, &s) : print_text(c->program, NULL, &s));
    int status = s.why ? TOOL_FAILED : TOOL_OK;
    state_free(&s);
    return status;
}

static int need_listed(const struct listing *l, const char *name)
{
    char *program = enable_program(l->records, name), *other = enable_program(l->records + 1, name);
    int failed = is_listed(l, program) || is_listed(l, other) ? TOOL_OK : TOOL_FAILED;
    if (failed)
        complain("status", "%s: it is neither enabled nor changed by set-interp, nor does the configuration name it by path",
                 program);
    free(other);
    free(program);
    return failed;
}

/* What a killed mvld has left of a program: only its configuration. */
static int is_rest(const struct changes *rows, const struct change *c)
{
    const struct change *other = NULL;
    while ((other = changes_next(rows, other, change_program(c))) && !way_of(other))
        ;
    return !other && !strcmp(c->field[CHANGE_KIND], "file") && change_stands(c);
}

/* Those of a record that are named, or all.  Returns how many. */
static int report_record(const struct changes *rows, char **names, int n, struct json *j, int *status)
{
    int listed = 0;
    for (size_t i = 0; i < rows->n; i++)
        if ((way_of(&rows->row[i]) || is_rest(rows, &rows->row[i])) &&
            (!n || is_named(rows, change_program(&rows->row[i]), names, n))) {
            *status |= report(&rows->row[i], j);
            listed++;
        }
    return listed;
}

static int status_of_programs(char **names, int n, struct json *j)
{
    char *path[RECORDS] = {changes_path(), changes_path_of_machine()};
    struct changes records[RECORDS] = {0};
    int status = TOOL_OK, listed = 0, failed = 0;

    for (int i = 0; i < RECORDS; i++) {
        const char *why = path[i] ? changes_read(path[i], &records[i]) : NULL;
        if (why)
            complain("status", "%s", why);
        failed |= why != NULL;
        listed += report_record(&records[i], names, n, j, &status);
        free(path[i]);
    }
    struct listing l = {.records = records, .names = names, .n_names = n, .json = j};
    const char *wrong = failed ? NULL : enable_each_configured(report_configured, &l, &status);
    if (wrong)
        complain("status", "%s", wrong);
    for (int i = 0; i < n && !failed; i++)
        status |= need_listed(&l, names[i]);
    if (!n && !listed && !l.n_configured && !j && !failed)
        puts("no program is enabled");
    if (!n && !failed)
        report_others(&l);
    for (size_t i = 0; i < l.n_configured; i++)
        free(l.configured[i]);
    free(l.configured);
    for (int i = 0; i < RECORDS; i++)
        changes_free(&records[i]);
    return failed ? TOOL_FAILED : status;
}

int tool_status(int argc, char **argv)
{
    static const struct option options[] = {{"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {0}};
    struct json j = {.to = stdout};
    int json = 0, status = TOOL_OK, c;
    struct processes processes = {0};

    while ((c = getopt_long(argc, argv, "p:h", options, NULL)) != -1) {
        switch (c) {
        case 'p':
            if (processes_add(&processes, "status", optarg))
                return TOOL_USAGE;
            break;
        case 'j': json = 1; break;
        case 'h': fputs(status_usage, stdout); return TOOL_OK;
        default: return TOOL_USAGE;
        }
    }
    if (json)
        json_begin(&j, NULL, '[');
    for (size_t i = 0; i < processes.n; i++)
        status |= status_of_process(processes.pid[i], json ? &j : NULL);
    if (!processes.n)
        status = status_of_programs(argv + optind, argc - optind, json ? &j : NULL);
    if (json)
        json_end(&j, ']');
    free(processes.pid);
    return status;
}
