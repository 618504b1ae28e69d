/* SPDX-License-Identifier: MIT
 *
 * enable/enable.c: `mvld enable`: makes a program start under mvld, from a snapshot.
 *
 * A user could take the same steps; each is recorded before it is done:
 *
 *     a file for the program in apps.d, and `mvld config`
 *     a way in which it is started under mvld (ways.c)
 *     `mvld analyze` of the program, as it is now, and its libraries
 *     `mvld build`, whose snapshot the next start maps
 *
 * If one fails, the earlier ones are reverted.  A step that was done before is done again: so
 * `enable` also renews what an upgrade has invalidated.
 */
#include "tools/cache/items.h"
#include "tools/changes/cached.h"
#include "tools/changes/made.h"
#include "tools/common/paths.h"
#include "tools/common/tools.h"
#include "tools/enable/enable.h"
#include "tools/interp/interp.h"
#include "tools/run/program.h"
#include "tools/run/wrapper.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char usage[] =
    "Usage: mvld enable [--by WAY] [--pass PASS] [--force] [--json] PROGRAM...\n"
    "       mvld enable --unit NAME.service [--pass PASS] [--force] [--json] PROGRAM\n"
    "       mvld enable --stale [--json]\n"
    "\n"
    "Each PROGRAM starts under mvld from now on, from a snapshot: writes a file for it in apps.d, has\n"
    "it started so, analyses it and its libraries, and builds the snapshot.  Say it again after an\n"
    "upgrade.  `mvld disable' takes everything back, `mvld status' lists it, and `mvld try' says\n"
    "whether it is worth it.\n"
    "\n"
    "  --by WAY     wrapper: a file of its name in /usr/local/bin, for a user in ~/.local/bin;\n"
    "               unit: a drop-in for the unit of --unit; set-interp: its file is changed.\n"
    "               Without --by as before, else a wrapper where a shell finds one, else set-interp\n"
    "  --unit NAME  for this unit of systemd's alone, whose ExecStart= names PROGRAM\n"
    "  --pass PASS  run this pass (again for more) instead of direct-calls, or of those before\n"
    "  --force      also a program that set-interp leaves alone\n"
    "  --stale      again those that were enabled and an upgrade has left behind (mvld status), and\n"
    "               analyses and snapshots of those configured by path with on-miss = build\n"
    "  --json       say of each, as JSON, what `mvld status' would\n"
    "  --help       this text\n"
    "\n"
    "Exit code: 0; 1 when a program could not be enabled (it is as it was); 2 for wrong usage.\n";

struct wish {
    const char *by, *unit; /* or NULL */
    char *passes;          /* the same */
    int force;
    struct json *json;     /* or NULL */
};

/* ---- configuration -------------------------------------------------------------------- */

/* The earlier state, and what this `enable` has changed. */
struct state {
    struct changes before;
    char *config, *old; /* the file in apps.d; its text, if this replaced one */
};

static const struct change *row_of_config(const struct state *s, const char *program)
{
    const struct change *c = NULL;
    while ((c = changes_next(&s->before, c, program)) && strcmp(c->field[CHANGE_PATH], s->config))
        ;
    return c;
}

/* Without --pass the configured passes stay, and so do a user's edits.  0; or -1 after a message. */
static int configure(const struct wish *w, const char *program, struct state *s)
{
    const char *why = NULL;
    s->config = enable_config_file(&s->before, program);
    if (!s->config)
        return -1;
    int is_there = row_of_config(s, program) && !access(s->config, F_OK);
    if (!is_there || w->passes) {
        const char *quote = program[strcspn(program, ",;*' ")] ? "\"" : "";
        char *text = must_print("; made by `mvld enable'; `mvld disable' removes it\n"
                                "[app]\nmatch = %s%s%s\npasses = %s\non-miss = build\n", quote, program, quote,
                                w->passes ? w->passes : "direct-calls");
        s->old = is_there ? read_file(s->config) : NULL;
        why = enable_make_file("file", s->config, program, text, strlen(text), 0644);
        free(text);
    }
    if (why)
        complain("enable", "%s: %s: %s", program, s->config, why);
    return why || enable_make_config() ? -1 : 0;
}

/* ---- ways ------------------------------------------------------------------------------- */

/* Reverts what has been done since; restores the earlier passes. */
static void undo_since(const struct target *t, const struct state *s)
{
    char *record = changes_path();
    struct changes now = {0};
    if (!changes_read(record, &now))
        for (size_t i = now.n; i-- > 0;) {
            const struct change *c = NULL;
            if (strcmp(change_program(&now.row[i]), t->program))
                continue;
            while ((c = changes_next(&s->before, c, t->program)) &&
                   strcmp(c->field[CHANGE_PATH], now.row[i].field[CHANGE_PATH]))
                ;
            if (!c)
                change_undo(record, &now.row[i]);
        }
    if (s->old)
        enable_make_file("file", s->config, t->program, s->old, strlen(s->old), 0644);
    enable_make_config();
    changes_free(&now);
    if (!changes_read(record, &now) && !now.n)
        changes_end(record);
    changes_free(&now);
    free(record);
}

static void print_text(const struct target *t, const struct way *way, const char *place)
{
    char *disable = shell_command("mvld disable", t->program);
    printf("%s starts under mvld by %s%s%s; to take it back: %s\n", t->program, way->name,
           way->text ? " " : "", way->text ? place : "", disable);
    free(disable);
    if (way == ways && !geteuid())
        puts("  each start takes some 0.4 ms more; --by set-interp avoids that, and changes the program's file");
    if (way->enter) {
        char *unit = unit_of(place);
        printf("  from its next start: systemctl restart %s\n", unit);
        free(unit);
    }
}

/* 0 if the program now starts by this method, and its snapshot is built. */
static int arrange(const struct wish *w, const struct target *t, const struct way *way, const char *place)
{
    if (way_arrange(way, t, place, w->force))
        return -1;
    if (way->enter)
        unit_reload();
    progress("[1/2] analysing %s and its libraries\n", t->program);
    if (enable_run(NULL, (const char *const[]){"analyze", "--program", t->program, NULL}, NULL))
        return -1;
    progress("[2/2] building its snapshot\n");
    if (enable_run(way, (const char *const[]){"build", t->program, NULL}, NULL))
        return -1;
    if (!w->json)
        print_text(t, way, place);
    return 0;
}

/* A program of many names has a wrapper for each that was asked for. */
static void note_name(const struct target *t)
{
    char *word = shell_word(t->called);
    printf("  as %s it starts without mvld: mvld enable --by wrapper %s\n", t->called, word);
    free(word);
}

/* By the earlier methods.  *n: their number. */
static int arrange_again(const struct wish *w, const struct target *t, const struct state *s, int *n)
{
    int failed = 0, reached = !t->is_name;
    for (const struct change *c = NULL; !failed && (c = changes_next(&s->before, c, t->program));) {
        const struct way *way = way_of(c);
        char *called = way ? wrapper_program(c->field[CHANGE_PATH]) : NULL;
        *n += way != NULL;
        reached |= way && (!way->text || (called && !strcmp(called, t->called)));
        failed = way && arrange(w, &(struct target){.program = t->program, .called = called ? called : t->called}, way,
                                c->field[CHANGE_PATH]);
        free(called);
    }
    if (*n && !failed && !reached && !w->json)
        note_name(t);
    return failed;
}

/* By the requested method, or the first possible one. */
static int arrange_new(const struct wish *w, const struct target *t)
{
    const char *by = w->by ? w->by : w->unit ? "unit" : NULL, *why = NULL, *no_wrapper = NULL;
    for (const struct way *way = ways; way->name; way++) {
        char *place = by && strcmp(by, way->name) ? NULL : way->place(t, &why);
        int failed = place ? arrange(w, t, way, place) : -1;
        free(place);
        if (place && failed && no_wrapper)
            complain("enable", "%s: no wrapper either: %s", t->program, no_wrapper);
        if (place)
            return failed;
        no_wrapper = way == ways && !by ? why : no_wrapper;
    }
    if (no_wrapper)
        complain("enable", "%s: %s", t->called, no_wrapper);
    complain("enable", "%s: %s", t->program, why);
    return -1;
}

/* ---- a program ---------------------------------------------------------------------------- */

/* By its absolute path: a wrapper is called from anywhere. */
static char *find_called(const char *name)
{
    char *found = program_find(name), *here = found && *found != '/' ? getcwd(NULL, 0) : NULL;
    char *called = here ? must_print("%s/%s", here, found) : NULL;
    if (!called)
        return found;
    free(here);
    free(found);
    return called;
}

static const char *objection(const char *program, int force);

/* The command that a user wants instead, or why there is none. */
static const char *objection_to_script(const struct program *script, int force)
{
    char *reader = program_of_script(script), *program = reader ? realpath(reader, NULL) : NULL;
    struct program p;
    const char *why;
    if (!program || program_open(&p, program))
        why = strerror(errno);
    else
        why = p.kind == PROGRAM_SCRIPT ? "that is a script, too" : objection(program, force);
    if (why)
        return must_print("it is a script, and for %s, which reads it: %s", reader ? reader : script->interpreter, why);
    return must_print("it is a script: say `%s' for the program that reads it", shell_command("mvld enable", reader));
}

/* NULL, or why no program can be enabled by this file. */
static const char *objection(const char *program, int force)
{
    struct program p;
    const char *why = NULL;
    if (program_open(&p, program))
        return strerror(errno);
    if (p.kind != PROGRAM_OURS)
        why = p.kind == PROGRAM_SCRIPT ? objection_to_script(&p, force) : program_objection(&p);
    if (!why && p.roomless)
        why = "it is linked to addresses with no room for libraries near it, so no snapshot of it can be made";
    for (const char *c = program; !why && *c; c++)
        if (*c == '"' || *c == '\\' || (unsigned char)*c < ' ' || *c == 0x7f)
            why = "a path with a double quote, a backslash or a control character cannot be enabled";
    if (!why && !force)
        why = interp_essential(program);
    return why || force ? why : loader_untrusted(path_loader(), program);
}

/* The folder in which other commands make the cache. */
static int make_cache_folder(const char *record)
{
    const char *why = cached_make_folder(record);
    if (why)
        complain("enable", "%s", why);
    return why ? -1 : 0;
}

/* Called with the lock held. */
static int enable_target(const struct wish *w, const struct target *t)
{
    char *record = changes_path();
    struct state s = {0};
    int again = 0, failed = 1;
    const char *why = record ? changes_read(record, &s.before) : NULL;

    if (why)
        complain("enable", "%s", why);
    else
        failed = make_cache_folder(record) || configure(w, t->program, &s);
    if (!failed && !w->by && !w->unit)
        failed = arrange_again(w, t, &s, &again);
    if (!failed && !again)
        failed = arrange_new(w, t);
    if (failed && !why) {
        undo_since(t, &s);
        complain("enable", "%s: not enabled%s", t->program,
                 changes_next(&s.before, NULL, t->program) ? "" : ": it is as it was");
    }
    changes_free(&s.before);
    free(s.config);
    free(s.old);
    free(record);
    return failed ? TOOL_FAILED : TOOL_OK;
}

static int enable(const struct wish *w, const char *name)
{
    struct target t = {.called = find_called(name), .unit = w->unit, .is_name = !strchr(name, '/')};
    t.program = t.called ? realpath(t.called, NULL) : NULL;
    const char *why = t.program ? objection(t.program, w->force) : strerror(errno);
    char *record = changes_path();
    int lock = why ? -1 : changes_lock(record, "enable", 1, &why), status = TOOL_FAILED;

    if (why)
        complain("enable", "%s: %s", name, why);
    else
        status = enable_target(w, &t);
    if (w->json)
        enable_report(w->json, t.program ? t.program : name);
    if (lock >= 0)
        close(lock);
    free(record);
    free(t.program);
    free(t.called);
    return status;
}

static int renew(const struct wish *w, const char *program, int *renewed)
{
    struct timespec now = tried_now();

    if (tried_in_vain(program) || !enable_is_stale(program))
        return TOOL_OK;
    int failed = enable(w, program);
    tried_note(program, &now, failed || enable_is_stale(program));
    *renewed += !failed;
    return failed;
}

/* A program that is disabled meanwhile is skipped: the record is read again for each. */
static int renew_all(const struct wish *w, int *renewed)
{
    char *record = changes_path();
    struct changes rows = {0};
    const char *why = record ? changes_read(record, &rows) : NULL;
    int status = why ? TOOL_FAILED : TOOL_OK;

    if (why)
        complain("enable", "%s", why);
    for (size_t i = 0; i < rows.n; i++)
        if (way_of(&rows.row[i]))
            status |= renew(w, change_program(&rows.row[i]), renewed);
    if (!why)
        status |= enable_build_configured(&rows, renewed);
    changes_free(&rows);
    free(record);
    return status;
}

#define MOST_ROUNDS 10

/* Again, until nothing is stale: what packages change meanwhile does not start mvld-renew.service, which runs. */
static int enable_stale(const struct wish *w)
{
    int status = TOOL_OK, rounds = 0, renewed;

    do {
        renewed = 0;
        status |= renew_all(w, &renewed);
    } while (renewed && ++rounds < MOST_ROUNDS);
    return status;
}

static int is_way(const char *name)
{
    const struct way *way = ways;
    while (way->name && strcmp(way->name, name))
        way++;
    return way->name != NULL;
}

/* The error in the options, or NULL. */
static const char *find_contradiction(const struct wish *w, int stale, int programs)
{
    if (w->by && !is_way(w->by))
        return must_print("--by %s: it is wrapper, unit or set-interp", w->by);
    if (stale && (programs || w->by || w->unit || w->passes))
        return "--stale stands alone";
    if (w->unit && w->by && strcmp(w->by, "unit"))
        return must_print("--unit excludes --by %s", w->by);
    return w->unit && programs > 1 ? "--unit is for one program" : NULL;
}

int tool_enable(int argc, char **argv)
{
    static const struct option options[] = {{"by", required_argument, NULL, 'b'},
                                            {"unit", required_argument, NULL, 'u'},
                                            {"pass", required_argument, NULL, 'p'},
                                            {"force", no_argument, NULL, 'f'},
                                            {"stale", no_argument, NULL, 's'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct json json = {.to = stdout};
    struct wish w = {0};
    int status = TOOL_OK, stale = 0, c;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (c) {
        case 'b': w.by = optarg; break;
        case 'u': w.unit = strchr(optarg, '.') ? optarg : must_print("%s.service", optarg); break;
        case 'p': w.passes = w.passes ? must_print("%s, %s", w.passes, optarg) : optarg; break;
        case 'f': w.force = 1; break;
        case 's': stale = 1; break;
        case 'j': w.json = &json; break;
        case 'h': fputs(usage, stdout); return TOOL_OK;
        default: return TOOL_USAGE;
        }
    }
    const char *wrong = find_contradiction(&w, stale, argc - optind);
    if (wrong)
        complain("enable", "%s", wrong);
    else if (!stale && optind == argc)
        fputs(usage, stderr);
    if (wrong || (!stale && optind == argc))
        return TOOL_USAGE;
    if (path_pass_folders()) {
        complain("enable", "this mvld is not installed, and its passes would not be found: ./dev install");
        if (w.json)
            puts("[]");
        return TOOL_FAILED;
    }
    if (!geteuid()) /* a cache of root's own would serve only root */
        unsetenv("XDG_CACHE_HOME");
    int64_t start = time(NULL);
    if (w.json)
        json_begin(w.json, NULL, '[');
    if (stale)
        status = enable_stale(&w);
    for (int i = optind; i < argc; i++)
        status |= enable(&w, argv[i]);
    if (w.json)
        json_end(w.json, ']');
    if (cache_keep_within("enable", cache_bound("enable"), start, NULL)) /* keeps what was made just now */
        status = TOOL_FAILED;
    return status;
}
