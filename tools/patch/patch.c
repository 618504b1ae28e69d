/* SPDX-License-Identifier: MIT
 *
 * patch.c: `mvld patch` replaces functions of running processes, lists replacements, and takes them back.
 */
#include "tools/patch/patch.h"
#include "tools/attach/which.h"
#include "tools/common/tools.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char usage[] =
    "Usage: mvld patch -p PID... | --all [--json]\n"
    "       mvld patch -p PID... | --all [--build-id ID] --replace LIBRARY:FUNCTION=FILE:FUNCTION...\n"
    "       mvld patch -p PID... | --all --undo LIBRARY:FUNCTION...\n"
    "\n"
    "Replaces functions of libraries in running processes by functions of another library, FILE, for\n"
    "everybody who calls them there; takes that back; or lists what is replaced. What the replaced\n"
    "function had under way, and whether its data mean to the new one what they meant to it, is for\n"
    "you to know. In each process all is done that was asked for, or nothing.\n"
    "\n"
    "  -p PID         this process; again for more\n"
    "  --all          each process that has LIBRARY; listing: each that has a replaced function\n"
    "  --replace ...  LIBRARY is a name as libc.so.6 or libc.so, or a program's, or a path; its FUNCTION\n"
    "                 may be NAME@VERSION; again for more\n"
    "  --undo ...     LIBRARY and FUNCTION as the list has them; again for more\n"
    "  --build-id ID  refuse a LIBRARY of another build\n"
    "  --json         as JSON\n"
    "  --help         this text\n"
    "\n"
    "All threads are stopped for the moment in which code is written.\n"
    "Exit code: 0; 1 when a process could not be reached or something was refused; 2 for wrong usage.\n";

struct request {
    struct replacement *what;
    size_t n;
    int undoes, json, all;
    const char *build_id;
};

/* ---- the command line ------------------------------------------------------------------------------------- */

static int wrong_usage(const char *why, const char *what)
{
    complain("patch", "%s%s; see mvld patch --help", why, what);
    return TOOL_USAGE;
}

/* PATH:NAME, at the last colon.  0, or -1. */
static int split(char *text, char **path, char **name)
{
    char *colon = strrchr(text, ':');

    if (!colon || colon == text || !colon[1])
        return -1;
    *colon = 0;
    *path = text;
    *name = colon + 1;
    return 0;
}

static int add_replacement(struct request *q, const char *text, int undoes)
{
    char *copy = must_print("%s", text), *equals = undoes ? NULL : strchr(copy, '=');
    struct replacement r = {0};

    if (equals)
        *equals = 0;
    if (split(copy, &r.library, &r.function) || (!undoes && (!equals || split(equals + 1, &r.file, &r.with))))
        return wrong_usage(undoes ? "LIBRARY:FUNCTION, not " : "LIBRARY:FUNCTION=FILE:FUNCTION, not ", text);
    if (!undoes) {
        char *path = realpath(r.file, NULL);
        struct stat st;

        if (!path || stat(path, &st)) {
            complain("patch", "%s: %s", r.file, strerror(errno));
            return TOOL_FAILED;
        }
        if (!S_ISREG(st.st_mode)) { /* a process that opens a FIFO waits for ever */
            complain("patch", "%s is no regular file", path);
            return TOOL_FAILED;
        }
        r.file = path;
    }
    q->what = must_grow(q->what, q->n + 1, sizeof *q->what);
    q->what[q->n++] = r;
    return 0;
}

/* ---- which processes ---------------------------------------------------------------------------------------- */

static char *read_maps(int folder, const char *pid)
{
    struct attach a = {.folder = openat(folder, pid, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    char *maps = a.folder < 0 ? NULL : attach_file(&a, "maps", NULL);

    if (a.folder >= 0)
        close(a.folder);
    return maps;
}

/* By the host loader's name, which may be that of a link. */
static int lists_library(const char *pid, const char *library)
{
    struct attach *a = attach_open((pid_t)strtol(pid, NULL, 10));
    int found = !a->why[0] && !attach_objects(a) && attach_named(a, library);

    attach_close(a);
    return found;
}

/* By the name of the file; also one that was removed, which is to be refused, and not passed over. */
static int maps_library(const char *maps, const char *library)
{
    size_t length = strlen(library);

    for (const char *at = maps; (at = strchr(at, '/')); at++)
        if (!strncmp(at + 1, library, length) && (at[1 + length] == '\n' || at[1 + length] == '.' || at[1 + length] == ' '))
            return 1;
    return 0;
}

static int has_all(int folder, const char *pid, const void *cookie)
{
    const struct request *q = cookie;
    char *maps = read_maps(folder, pid);
    int found = maps != NULL;

    for (size_t i = 0; found && i < q->n; i++)
        found = maps_library(maps, q->what[i].library) || lists_library(pid, q->what[i].library);
    free(maps);
    return found;
}

static int has_records(int folder, const char *pid, const void *cookie)
{
    struct attach *a = attach_open((pid_t)strtol(pid, NULL, 10));
    struct patched *list = NULL;
    const struct request *q = cookie;
    size_t n = 0, matches = 0;

    (void)folder;
    if (!a->why[0])
        records_read(a, &list, &n);
    for (size_t i = 0; i < q->n; i++)
        for (size_t k = 0; k < n; k++)
            matches += (size_t)record_is_of(&list[k], q->what[i].library, q->what[i].function);
    free(list);
    attach_close(a);
    return q->n ? matches > 0 : n > 0;
}

/* ---- doing it ------------------------------------------------------------------------------------------------ */

static void print_text(const struct attach *a, const struct patched *p)
{
    const char *const names[] = {p->what.library, ":", p->what.function, " is replaced by ", p->what.with, " of ",
                                 p->what.file};

    printf("process %d: ", a->pid);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        print_name(stdout, names[i]);
    puts(p->in_force ? "" : " (not in force)");
}

static void print_json(struct json *j, const struct attach *a, const struct patched *p)
{
    json_begin(j, NULL, '{');
    json_signed(j, "pid", a->pid);
    json_string(j, "library", p->what.library);
    json_string(j, "function", p->what.function);
    json_hex(j, "address", p->record.entry);
    json_string(j, "file", p->what.file);
    json_string(j, "with", p->what.with);
    json_bool(j, "in_force", p->in_force);
    json_end(j, '}');
}

static int list(struct attach *a, struct json *j)
{
    struct patched *records;
    size_t n;

    if (records_read(a, &records, &n))
        return attach_fail(a, "process %d has ended", a->pid);
    for (size_t i = 0; i < n; i++) {
        if (j)
            print_json(j, a, &records[i]);
        else
            print_text(a, &records[i]);
    }
    if (!n && !j)
        printf("process %d: nothing is replaced\n", a->pid);
    free(records);
    return 0;
}

static int visit(pid_t pid, const void *request, struct json *j)
{
    const struct request *q = request;
    struct attach *a = attach_open(pid);
    int err = a->why[0] || attach_list(a) ? -1 : 0;

    if (!err)
        err = !q->n      ? list(a, j)
              : q->undoes ? undo_functions(a, q->what, q->n)
                          : replace_functions(a, q->what, q->n, q->build_id);
    if (a->stopped && attach_end(a) && !err) /* it is done; the process has ended since */
        err = -1;
    if (err && q->all && attach_is_gone(a)) /* since the processes were listed */
        err = 0;
    else if (err)
        complain("patch", "%s", a->why);
    else if (q->n)
        printf("process %d: %zu function%s %s (one thread was stopped for %lu us)\n", pid, q->n, q->n == 1 ? "" : "s",
               q->undoes ? "as before" : "replaced", a->pause / 1000);
    attach_close(a);
    return err ? TOOL_FAILED : TOOL_OK;
}

int tool_patch(int argc, char **argv)
{
    static const struct option options[] = {{"all", no_argument, NULL, 'a'}, {"replace", required_argument, NULL, 'r'},
        {"undo", required_argument, NULL, 'u'}, {"build-id", required_argument, NULL, 'b'},
        {"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {0}};
    struct processes processes = {0};
    struct request q = {0};
    int c, err, status;

    while ((c = getopt_long(argc, argv, "p:h", options, NULL)) != -1) {
        switch (c) {
        case 'p':
            if (processes_add(&processes, "patch", optarg))
                return TOOL_USAGE;
            break;
        case 'r':
        case 'u':
            if (q.n && q.undoes != (c == 'u'))
                return wrong_usage("--replace and --undo are two commands", "");
            q.undoes = c == 'u';
            if ((err = add_replacement(&q, optarg, q.undoes)))
                return err;
            break;
        case 'a': q.all = 1; break;
        case 'b': q.build_id = optarg; break;
        case 'j': q.json = 1; break;
        case 'h': fputs(usage, stdout); return TOOL_OK;
        default: return TOOL_USAGE;
        }
    }
    if (optind < argc)
        return wrong_usage("what is this for: ", argv[optind]);
    if (q.json && q.n)
        return wrong_usage("--json is for the list", "");
    if (q.build_id && (!q.n || q.undoes))
        return wrong_usage("--build-id is for --replace", "");
    if (!q.all && !processes.n)
        return wrong_usage("say which process: -p PID or --all", "");
    if (q.all && !processes_all(&processes, q.n && !q.undoes ? has_all : has_records, &q) && q.n) {
        complain("patch", "no process has %s", q.undoes ? "such a replaced function" : "that library");
        return TOOL_FAILED;
    }
    status = processes_visit(&processes, visit, &q, q.json);
    free(processes.pid);
    return status;
}
