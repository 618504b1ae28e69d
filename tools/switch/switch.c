/* SPDX-License-Identifier: MIT
 *
 * switch.c: `mvld switch`: lists and changes the switches of running processes.
 */
#include "tools/attach/which.h"
#include "tools/common/tools.h"
#include "tools/run/program.h"
#include "tools/switch/answer.h"
#include "tools/switch/reach.h"

#include "mvld/descriptor.h"

#include <errno.h>
#include <fnmatch.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "Usage: mvld switch -p PID... | --all PROGRAM [--json] [NAME...]\n"
    "       mvld switch -p PID... | --all PROGRAM [--revert | --keep] NAME=VALUE...\n"
    "       mvld switch -p PID... | --all PROGRAM --commit | --revert\n"
    "\n"
    "Lists the multiverse switches of running processes, and the functions that ask them; or gives\n"
    "switches values and commits the functions that ask them. A NAME may be a pattern as of a shell, or\n"
    "NAME@ADDRESS where several switches have one name. Nothing is changed when one name is unknown, a\n"
    "value is none that its switch can hold, or a function cannot be bound.\n"
    "\n"
    "  -p PID         this process; again for more\n"
    "  --all PROGRAM  each process that runs PROGRAM's file\n"
    "  --commit       commit (as without it); without NAME=VALUE: everything\n"
    "  --revert       revert the functions instead of committing them\n"
    "  --keep         change the values alone\n"
    "  --json         as JSON\n"
    "  --help         this text\n"
    "\n"
    "A thread of the process that waits in a system call does it, and is stopped meanwhile.\n"
    "Exit code: 0; 1 when a process could not be reached or nothing could be changed; 2 for wrong usage.\n";

struct request {
    const char *action; /* "commit", "revert", "keep" */
    int is_change, json, all;
    char **names; /* NAME or NAME=VALUE */
    size_t n_names;
};

static int explain(const struct request *q, const struct reach *r)
{
    if (q->all && attach_is_gone(r->attach)) /* since the processes were listed */
        return TOOL_OK;
    complain("switch", "%s", r->attach->why);
    return TOOL_FAILED;
}

/* ---- which switches */

/* Whether NAME, of `length` bytes, means this switch. */
static int is_meant(const struct live_switch *s, const char *name, size_t length)
{
    char *pattern = must_print("%.*s", (int)length, name), *at = strrchr(pattern, '@'), *end;
    uint64_t address = at ? strtoull(at + 1, &end, 16) : 0;
    int meant;

    if (at)
        *at = 0;
    meant = (!at || address == s->address) && !fnmatch(pattern, s->name, 0);
    free(pattern);
    return meant;
}

static int is_listed(const struct request *q, const struct live_switch *s)
{
    int meant = !q->n_names;

    for (size_t i = 0; i < q->n_names; i++)
        meant |= is_meant(s, q->names[i], strlen(q->names[i]));
    return meant;
}

static int read_answer(struct reach *r, struct answer *a, char *said)
{
    return answer_parse(a, said)
        ? attach_fail(r->attach, "process %d: its libmultiverse answers as no version of ours does", r->attach->pid) : 0;
}

/* Each name means a switch.  0, or -1: the process has none of that name. */
static int check_names(struct reach *r, const struct request *q, const struct answer *a)
{
    for (size_t i = 0; i < q->n_names; i++) {
        size_t found = 0;

        for (size_t k = 0; k < a->n_switches; k++)
            found += (size_t)is_meant(&a->switches[k], q->names[i], strlen(q->names[i]));
        if (!found)
            return attach_fail(r->attach, "process %d has no switch %s", r->attach->pid, q->names[i]);
    }
    return 0;
}

static int is_pattern(const char *name, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (strchr("*?[", name[i]))
            return 1;
    return 0;
}

/* Adds " ADDRESS=VALUE" for one NAME=VALUE.  0, or -1 after an error message. */
static int add_change(struct reach *r, const struct answer *a, const char *name, char **text)
{
    const char *equals = strchr(name, '=');
    size_t length = (size_t)(equals - name), n = 0;

    for (size_t i = 0; i < a->n_switches; i++) {
        const struct live_switch *s = &a->switches[i];
        char type[16], low[24], high[24], *longer;
        uint64_t value;

        if (!is_meant(s, name, length))
            continue;
        switch_type(s, type, low, high);
        if (switch_parse(s, equals + 1, &value))
            return attach_fail(r->attach, "process %d: %s is %s, from %s to %s: not \"%s\"", r->attach->pid,
                               s->name, type, low, high, equals + 1);
        if (!attach_is_writable(r->attach, s->address, s->width))
            return attach_fail(r->attach, "process %d: %s lies in memory that is never written", r->attach->pid, s->name);
        if (n++ && !is_pattern(name, length))
            return attach_fail(r->attach, "process %d: several switches are named %s: say which, as %s@0x%lx",
                               r->attach->pid, s->name, s->name, s->address);
        longer = must_print("%s %lx=%lx:%s", *text, s->address, value, s->name);
        free(*text);
        *text = longer;
    }
    return n ? 0 : attach_fail(r->attach, "process %d has no switch %.*s", r->attach->pid, (int)length, name);
}

/* ---- listing */

static const char *plural(size_t n)
{
    return n == 1 ? "" : "s";
}

static void list_text(const struct request *q, const struct attach *t, const struct answer *a)
{
    printf("process %d (", t->pid);
    print_name(stdout, t->objects[0].name);
    puts("):");
    for (size_t i = 0; i < a->n_switches; i++) {
        const struct live_switch *s = &a->switches[i];
        char type[16], low[24], high[24], value[24];

        if (!is_listed(q, s))
            continue;
        switch_type(s, type, low, high);
        switch_value(s, value);
        fputs("  switch ", stdout);
        print_name(stdout, s->name);
        printf(" = %s  %s%s at 0x%lx, %zu function%s%s\n", value, type,
               s->flags & MULTIVERSE_SWITCH_CONSTANT ? ", a constant" : "", s->address, s->n_functions,
               plural(s->n_functions), s->is_bound ? "" : ", unbound");
    }
    for (size_t i = 0; i < a->n_functions; i++) {
        const struct live_function *f = &a->functions[i];

        if (q->n_names)
            break;
        printf("  %s ", f->kind);
        print_name(stdout, f->name);
        printf(" of ");
        print_name(stdout, f->object);
        printf(": %s%s, %zu variant%s, %zu site%s%s%s%s%s\n", *f->active ? "bound to " : "not bound",
               f->active, f->n_variants, plural(f->n_variants), f->n_sites, plural(f->n_sites),
               *f->why ? ", " : "", *f->why ? f->outcome : "", *f->why ? ": " : "", f->why);
    }
}

static void json_switch(struct json *j, const struct live_switch *s)
{
    char type[16], low[24], high[24], value[24];

    switch_type(s, type, low, high);
    switch_value(s, value);
    json_begin(j, NULL, '{');
    json_string(j, "name", s->name);
    json_hex(j, "address", s->address);
    json_string(j, "type", type);
    json_string(j, "low", low);
    json_string(j, "high", high);
    json_string(j, "value", value);
    json_bool(j, "constant", (s->flags & MULTIVERSE_SWITCH_CONSTANT) != 0);
    json_bool(j, "tracked", (s->flags & MULTIVERSE_SWITCH_TRACKED) != 0);
    json_bool(j, "bound", s->is_bound);
    json_unsigned(j, "functions", s->n_functions);
    json_end(j, '}');
}

static void json_function(struct json *j, const struct live_function *f)
{
    json_begin(j, NULL, '{');
    json_string(j, "name", f->name);
    json_string(j, "object", f->object);
    json_hex(j, "address", f->address);
    json_string(j, "kind", f->kind);
    json_unsigned(j, "variants", f->n_variants);
    json_unsigned(j, "sites", f->n_sites);
    json_string(j, "active", *f->active ? f->active : NULL);
    json_string(j, "outcome", f->outcome);
    json_string(j, "why", *f->why ? f->why : NULL);
    json_begin(j, "switches", '[');
    for (const char *name = f->asks; *name;) {
        size_t length = strcspn(name, "\t");
        char *one = must_print("%.*s", (int)length, name);

        json_string(j, NULL, one);
        free(one);
        name += length + (name[length] != 0);
    }
    json_end(j, ']');
    json_end(j, '}');
}

static void list_json(const struct request *q, struct json *j, const struct attach *t, const struct answer *a)
{
    json_begin(j, NULL, '{');
    json_signed(j, "pid", t->pid);
    json_string(j, "program", t->objects[0].name);
    json_unsigned(j, "pause", t->pause);
    json_begin(j, "switches", '[');
    for (size_t i = 0; i < a->n_switches; i++)
        if (is_listed(q, &a->switches[i]))
            json_switch(j, &a->switches[i]);
    json_end(j, ']');
    json_begin(j, "functions", '[');
    for (size_t i = 0; !q->n_names && i < a->n_functions; i++)
        json_function(j, &a->functions[i]);
    json_end(j, ']');
    json_end(j, '}');
}

/* ---- changing */

static void told(const struct request *q, struct json *j, const struct attach *t, const char *text)
{
    size_t changed = 0, unchanged = 0, generic = 0, refused = 0;
    const char *report = strchr(text, '\n');

    sscanf(text, "%zu\t%zu\t%zu\t%zu", &changed, &unchanged, &generic, &refused);
    report = report ? report + 1 : "";
    if (!j) {
        printf("process %d: %s: %zu function%s changed, %zu unchanged, %zu generic (stopped for %lu us)\n",
               t->pid, q->action, changed, plural(changed), unchanged, generic, t->pause / 1000);
        fputs(report, stdout);
        return;
    }
    json_begin(j, NULL, '{');
    json_signed(j, "pid", t->pid);
    json_string(j, "program", t->objects[0].name);
    json_unsigned(j, "pause", t->pause);
    json_unsigned(j, "changed", changed);
    json_unsigned(j, "unchanged", unchanged);
    json_unsigned(j, "generic", generic);
    json_string(j, "report", *report ? report : NULL);
    json_end(j, '}');
}

/* Looks up the names first.  The process runs meanwhile, and the library compares names and addresses again.  Returns
 * the answer, or NULL. */
static char *change(struct reach *r, const struct request *q)
{
    char *text = must_print("%s", q->action), *said = NULL;
    struct answer a = {0};
    int wrong = 0;

    if (q->n_names) {
        said = reach_ask(r, "list");
        wrong = !said || read_answer(r, &a, said);
    }
    for (size_t i = 0; !wrong && i < q->n_names; i++)
        wrong = add_change(r, &a, q->names[i], &text);
    answer_free(&a);
    said = wrong ? NULL : reach_ask(r, text);
    free(text);
    return said;
}

static int visit(pid_t pid, const void *request, struct json *j)
{
    const struct request *q = request;
    struct reach r;
    struct answer a = {0};
    char *said = NULL;
    int status = TOOL_FAILED;

    if (!reach_open(&r, pid) && !reach_begin(&r))
        said = q->is_change ? change(&r, q) : reach_ask(&r, "list");
    if (!said || attach_end(r.attach) || (!q->is_change && (read_answer(&r, &a, said) || check_names(&r, q, &a)))) {
        status = explain(q, &r);
    } else {
        if (q->is_change)
            told(q, j, r.attach, said);
        else if (j)
            list_json(q, j, r.attach, &a);
        else
            list_text(q, r.attach, &a);
        status = TOOL_OK;
    }
    if (q->is_change)
        free(said);
    else
        answer_free(&a);
    reach_close(&r);
    return status;
}

/* ---- which processes */

static int runs(int folder, const char *pid, const void *file)
{
    char link[64], path[4096];
    ssize_t n;

    snprintf(link, sizeof link, "%s/exe", pid);
    n = readlinkat(folder, link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    return !strcmp(path, file);
}

static int add_all(const char *program, struct processes *processes)
{
    char *found = program_find(program), *file = found ? realpath(found, NULL) : NULL;
    size_t n = file ? processes_all(processes, runs, file) : 0;

    if (!file)
        complain("switch", "%s: %s", program, strerror(errno));
    else if (!n)
        complain("switch", "%s: no process runs it", file);
    free(found);
    free(file);
    return n ? 0 : -1;
}

static int wrong_usage(const char *why, const char *what)
{
    complain("switch", "%s%s; see mvld switch --help", why, what);
    return TOOL_USAGE;
}

int tool_switch(int argc, char **argv)
{
    static const struct option options[] = {{"all", required_argument, NULL, 'a'}, {"commit", no_argument, NULL, 'c'},
        {"revert", no_argument, NULL, 'r'}, {"keep", no_argument, NULL, 'k'}, {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'}, {0}};
    struct request q = {.action = NULL};
    struct processes processes = {0};
    const char *action;
    size_t n_values = 0;
    int c, status;

    while ((c = getopt_long(argc, argv, "p:h", options, NULL)) != -1) {
        switch (c) {
        case 'p':
            if (processes_add(&processes, "switch", optarg))
                return TOOL_USAGE;
            break;
        case 'a':
            if (add_all(optarg, &processes))
                return TOOL_FAILED;
            q.all = 1;
            break;
        case 'c':
        case 'r':
        case 'k':
            action = c == 'c' ? "commit" : c == 'r' ? "revert" : "keep";
            if (q.action && strcmp(q.action, action) != 0)
                return wrong_usage("one of --commit, --revert and --keep", "");
            q.action = action;
            break;
        case 'j': q.json = 1; break;
        case 'h': fputs(usage, stdout); return TOOL_OK;
        default: return TOOL_USAGE;
        }
    }
    q.names = argv + optind;
    q.n_names = (size_t)(argc - optind);
    for (size_t i = 0; i < q.n_names; i++)
        n_values += strcspn(q.names[i], "=") > 0 && strchr(q.names[i], '=');
    q.is_change = q.action || n_values;
    if (!processes.n)
        return wrong_usage("say which process: -p PID or --all PROGRAM", "");
    if (q.is_change && n_values != q.n_names)
        return wrong_usage("each name needs a value: NAME=VALUE", "");
    if (q.action && !strcmp(q.action, "keep") && !n_values)
        return wrong_usage("--keep needs NAME=VALUE", "");
    q.action = q.action ? q.action : "commit";
    status = processes_visit(&processes, visit, &q, q.json);
    free(processes.pid);
    return status;
}
