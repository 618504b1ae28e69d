/* SPDX-License-Identifier: MIT
 *
 * run.c: `mvld run` starts one program under mvld, once.  `mvld build` starts it until its first
 * constructor, where the loader writes its snapshot and exits; with --run it continues, and the
 * loader adds objects of dlopen.
 */
#include "tools/cache/items.h"
#include "tools/cache/print.h"
#include "tools/config/make.h"
#include "tools/common/elf_file.h"
#include "tools/common/paths.h"
#include "loader/manager/pipeline.h"
#include "tools/run/children.h"
#include "tools/run/follow.h"
#include "tools/run/itself.h"
#include "tools/run/program.h"
#include "tools/run/request.h"
#include "tools/common/tools.h"

#include <errno.h>
#include <fcntl.h>
#include <paths.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* As a shell says it. */
enum { CANNOT_EXECUTE = 126, NOT_FOUND = 127 };

#define MOST_SCRIPTS 5 /* script of a script of …: the kernel's own limit */

static const char run_usage[] =
    "Usage: mvld run [OPTION...] [--] PROGRAM [ARGUMENT...]\n"
    "\n"
    "Runs PROGRAM, found as a shell finds it, under ld-mvld.so.1: its own file, unchanged.\n"
    "Of a script the interpreter (#!, or else /bin/sh) runs under mvld.  Static\n"
    "executables, programs with set-id bits or capabilities, those that may not be read,\n"
    "and programs for another loader are started plainly, and all that may have less than\n"
    "1 MiB of data or 8 MiB of addresses (setrlimit(2)), or if ld-mvld.so.1 is missing or\n"
    "truncated, which is said on standard error.\n"
    "\n" REQUEST_USAGE
    "  --argv0 NAME         the program's argv[0]\n"
    "  --loader FILE        instead of the installed ld-mvld.so.1\n"
    "  --direct             run the loader, which loads PROGRAM: without ptrace\n"
    "  --children           also what PROGRAM starts, and so on: in a mount namespace in which\n"
    "                       the loader stands in the place of the machine's, or else traced\n"
    "  --help               this text\n"
    "\n"
    "The options reach the program as MVLD_TUNABLES, MVLD_CONFIG and MVLD_DEBUG, and\n"
    "its children inherit these.\n"
    "Exit code: that of PROGRAM; 1 when the options are refused, 2 for wrong usage, 126\n"
    "when PROGRAM cannot be executed, 127 when it is not found.\n";

static const char build_usage[] =
    "Usage: mvld build [OPTION...] [--] PROGRAM\n"
    "       mvld build --run [OPTION...] [--] PROGRAM [ARGUMENT...]\n"
    "       mvld build --check [OPTION...] [--] PROGRAM\n"
    "\n"
    "Writes the snapshot of PROGRAM: its code, and that of the libraries that it\n"
    "starts with, as the passes of its pipeline leave it.  Later starts map it instead of\n"
    "running these passes.  Nothing of PROGRAM runs.  The snapshot lies in\n"
    "$XDG_CACHE_HOME/mvld/snapshots; without XDG_CACHE_HOME in /var/cache/mvld/snapshots when root\n"
    "builds it, for everybody, else in ~/.cache/mvld/snapshots.  Its folder is printed; see mvld\n"
    "cache.\n"
    "\n"
    "  --run                run PROGRAM, and add what it loads later (dlopen) to its snapshot,\n"
    "                       to the one that is there when it fits, else to a new one\n"
    "  --check              write nothing; say which snapshot a start of PROGRAM takes, or why none\n"
    "  --json               print the snapshot as `mvld cache list --json' does, or null; not with --run\n"
    REQUEST_USAGE
    "  --argv0 NAME         the program's argv[0]\n"
    "  --loader FILE        instead of the installed ld-mvld.so.1\n"
    "  --direct             for starts with `mvld run --direct'\n"
    "  --help               this text\n"
    "\n"
    "Exit code: 0, with --run that of PROGRAM; 1 when there is no snapshot, with the reason on\n"
    "standard error; 2 for wrong usage, 126 when PROGRAM cannot be executed, 127 when it is not\n"
    "found.\n";

/* Space in front for what an interpreter, or the loader, needs there. */
struct command {
    const char *name; /* of the subcommand */
    const char *snapshot; /* of `mvld build`: MVLD_SNAPSHOT */
    int plainly; /* the program's own interpreter is left to it */
    int direct;  /* the loader is executed, and loads the program */
    int children; /* descendants start under mvld, too */
    int json;     /* of `mvld build' */
    const char *file; /* the user's command, and its arguments */
    char **asked;
    char **argv; /* argv[first] is argv[0] of the program: for a script, its interpreter */
    size_t first;
};

static void put_in_front(struct command *c, const char *argument)
{
    c->argv[--c->first] = (char *)argument;
}

static int cannot(const struct command *c, const char *path, int error)
{
    complain(c->name, "%s: %s", path, strerror(error));
    return error == ENOENT ? NOT_FOUND : CANNOT_EXECUTE;
}

/* Follows #! lines: the command becomes the interpreter's.  A text without such a line is the shell's, as for
 * execvp(3): the kernel does not execute it. */
static int resolve(struct program *p, struct command *c, const char *name)
{
    char *path = program_find(name);
    int is_text = 0;

    if (!path)
        return cannot(c, name, errno);
    c->file = path;
    for (int depth = 0;; depth++) {
        if (program_open_to_run(p, path))
            return cannot(c, path, errno);
        if (p->kind == PROGRAM_UNKNOWN && !depth) {
            is_text = 1;
            strcpy(p->interpreter, _PATH_BSHELL);
        } else if (p->kind != PROGRAM_SCRIPT || depth == MOST_SCRIPTS) {
            break;
        }
        c->argv[c->first] = p->path; /* the script's name replaces argv[0] */
        if (*p->argument)
            put_in_front(c, must_print("%s", p->argument));
        put_in_front(c, path = must_print("%s", p->interpreter));
        int error = program_try(path);
        if (error)
            return cannot(c, path, error);
    }
    if (p->kind == PROGRAM_UNKNOWN || p->kind == PROGRAM_SCRIPT) {
        complain(c->name, "%s: neither an ELF file nor a script with #!", path);
        if (!c->snapshot)
            execvp(c->file, c->asked); /* the kernel says why not, or it is the shell's */
        return c->snapshot ? CANNOT_EXECUTE : cannot(c, c->file, errno);
    }
    if (is_text) {
        c->file = path;
        c->asked = c->argv + c->first;
    }
    return 0;
}

/* Impossible options are an error of the caller.  A wrong configuration alone is not: then the
 * program runs untransformed, as without us, and the loader reports it. */
static int check_plan(const struct request *r, const struct program *p, const struct command *c)
{
    struct pipeline *plan = NULL;
    char why[512];
    const char *wrong = request_apply(r, p);

    if (!wrong && request_plan(p, &plan, why, sizeof why))
        wrong = why;
    pipeline_free(plan);
    if (!wrong || (request_is_empty(r) && !c->snapshot))
        return 0;
    complain(c->name, "%s", wrong);
    return TOOL_FAILED;
}

/* Whether argv[0] can be chosen with the host loader: glibc's since 2.33. */
static int takes_argv0(const struct program *p)
{
    if (p->musl) /* since 1.2.2 */
        return 1;

    const char *named = getenv("MVLD_HOST_LOADER");
    struct elf_file f;
    int takes = !elf_file_open(&f, named && *named ? named : path_host_loader()) &&
                memmem(f.bytes, f.size, "--argv0", sizeof "--argv0");

    elf_file_close(&f);
    return takes;
}

/* Why the program is started plainly, or NULL. */
static const char *objection(const struct program *p)
{
    return p->kind == PROGRAM_PLAIN && memory_is_short(0) ? "it may have less than 1 MiB of data, or 8 MiB of addresses (setrlimit(2))"
                                                         : program_objection(p);
}

/* 0 when the program may be started, or an exit code. */
static int object(const struct program *p, struct command *c)
{
    const char *why = objection(p), *off = getenv("MVLD");

    if (!why && !(off && !strcmp(off, "off")))
        return 0;
    c->plainly = 1;
    c->children &= !memory_is_short(0);
    if (c->snapshot) /* plainly it would not stop */
        complain(c->name, "%s: %s", p->path, why ? why : "MVLD=off");
    else if (why)
        complain(c->name, "%s: started without mvld: %s", p->path, why);
    else
        complain(c->name, "MVLD=off: no pass runs");
    return c->snapshot ? TOOL_FAILED : 0;
}

/* LOADER [--argv0 CALLED] [--argv0 NAME] PATH ARGUMENT...  As if the kernel started it: $ORIGIN is
 * the file's folder, argv[0] is unchanged; and configurations match by either, and by the executed
 * path (loader/start/program.c).  If argv[0] cannot be chosen, it is PATH, which must then be the
 * executed path. */
static void put_loader(const struct program *p, struct command *c, const char *loader)
{
    const char *argv0 = c->argv[c->first];
    char *path = takes_argv0(p) ? realpath(p->path, NULL) : NULL;
    const char *option = *p->path == '-' ? "./" : ""; /* it is no option of the loader's */
    int followed = path && strcmp(path, p->path);

    c->argv[c->first] = path ? path : must_print("%s%s", option, p->path);
    if (path && (followed || strcmp(argv0, path))) {
        put_in_front(c, argv0);
        put_in_front(c, "--argv0");
    }
    if (followed) {
        put_in_front(c, p->path);
        put_in_front(c, "--argv0");
    }
    put_in_front(c, loader);
}

/* Executes the loader, which loads the program; or the program plainly. */
static int start_directly(const struct program *p, struct command *c, const char *loader, const char *damage, int must)
{
    char *name = *c->asked;

    put_loader(p, c, loader);
    if (!damage)
        execv(loader, c->argv + c->first);
    complain(c->name, "%s: %s%s: %s", p->path, must ? "" : "started without mvld: ", loader, damage ? damage : strerror(errno));
    if (must)
        return TOOL_FAILED;
    *c->asked = name;
    execvp(c->file, c->asked);
    return cannot(c, c->file, errno);
}

static int start(const struct program *p, struct command *c, const char *loader)
{
    const char *file = c->file, *why = NULL, *damage = loader_damage(loader);
    int must = c->snapshot && strcmp(c->snapshot, "run") != 0, follow = 0;

    if (c->snapshot) {
        int writes = strcmp(c->snapshot, "check") != 0;
        if (writes)
            cache_keep_within(c->name, cache_bound(c->name), INT64_MAX, NULL); /* reports if impossible */
        setenv("MVLD_SNAPSHOT", c->snapshot, 1);
        if (writes && must)
            progress("writing the snapshot of %s\n", p->path);
    }
    fflush(stdout);
    if (c->children && (why = damage ? damage : children_enter(loader))) {
        follow = !damage && p->kind != PROGRAM_SECURE; /* which would lose its rights */
        complain(c->name, "what descends from %s is %s: %s", p->path, follow ? "traced" : "started without mvld", why);
    }
    int in_place = c->children && !why; /* our loader is mounted over the machine's */
    int as_it_is = in_place || c->plainly || p->kind == PROGRAM_OURS;
    if (follow || !(as_it_is || c->direct)) {
        why = execute_itself(loader, file, c->asked, must, follow ? follow_descendants : NULL);
        if (!why)
            return cannot(c, file, errno);
        if (follow)
            complain(c->name, "what descends from %s is started without mvld: %s", p->path, why);
    }
    if (as_it_is) {
        execvp(file, c->asked); /* by its path; what the kernel knows no format of is the shell's, as for env(1) */
        return cannot(c, file, errno);
    }
    if (why && !damage)
        complain(c->name, "%s: started as with --direct: %s", p->path, why);
    return start_directly(p, c, loader, damage, must);
}

/* This process ends as a child that becomes the program: prints the snapshot whose folder the loader prints. */
static int report(pid_t child, int from)
{
    struct json json = {.to = stdout};
    struct cache_item item = {.kind = CACHE_SNAPSHOT};
    struct cached c;
    size_t room = 0;
    int status = -1;
    FILE *said = fdopen(from, "r");

    if (said && getline(&item.path, &room, said) > 0)
        item.path[strcspn(item.path, "\n")] = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (status || !item.path) {
        puts("null");
        return WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : TOOL_FAILED;
    }
    cache_item_measure(&item);
    cached_open(&c, item.path, 0);
    cache_print(&json, &item, &c);
    cached_close(&c);
    return TOOL_OK;
}

/* Returns in a child, with its standard output in a pipe; the parent reports. */
static void report_end(const char *subcommand)
{
    int ends[2];
    pid_t child = pipe2(ends, O_CLOEXEC) ? -1 : fork();

    if (child > 0) {
        close(ends[1]);
        exit(report(child, ends[0]));
    }
    if (child < 0 || dup2(ends[1], STDOUT_FILENO) < 0) {
        complain(subcommand, "%s", strerror(errno));
        exit(TOOL_FAILED);
    }
}

/* 1, and says why: options that exclude each other, or an argument behind PROGRAM for a program that does not run. */
static int wrong_usage(const struct command *c, const char *argument)
{
    int runs = !c->snapshot || !strcmp(c->snapshot, "run");

    if (c->direct && c->children)
        complain(c->name, "--direct and --children exclude each other");
    else if (c->json && runs)
        complain(c->name, "--json and --run exclude each other: PROGRAM prints, too");
    else if (argument && !runs)
        complain(c->name, "%s: one PROGRAM, without arguments unless --run runs it", argument);
    else
        return 0;
    return 1;
}

static int run(const struct command *blank, const char *usage, int argc, char **argv)
{
    const struct option options[] = {REQUEST_OPTIONS,
                                     {"argv0", required_argument, NULL, '0'},
                                     {"loader", required_argument, NULL, 'l'},
                                     {"direct", no_argument, NULL, 'D'},
                                     {"help", no_argument, NULL, 'h'},
                                     {blank->snapshot ? "run" : "children", no_argument, NULL, blank->snapshot ? 'r' : 'C'},
                                     {blank->snapshot ? "check" : NULL, no_argument, NULL, 'k'}, /* NULL ends it */
                                     {"json", no_argument, NULL, 'j'},
                                     {0}};
    struct command command = *blank;
    struct request r = {0};
    struct program p;
    const char *argv0 = NULL, *loader = path_loader();
    int c, status;

    while ((c = getopt_long(argc, argv, "+h", options, NULL)) != -1) { /* +: up to PROGRAM */
        switch (c) {
        case '0': argv0 = optarg; break;
        case 'l': loader = optarg; break;
        case 'D': command.direct = 1; break;
        case 'C': command.children = 1; break;
        case 'h': fputs(usage, stdout); return TOOL_OK;
        case 'r':
        case 'k':
            if (!strcmp(command.snapshot, c == 'r' ? "check" : "run")) {
                complain(command.name, "--check and --run exclude each other: --check runs nothing of PROGRAM");
                return TOOL_USAGE;
            }
            command.snapshot = c == 'r' ? "run" : "check";
            break;
        case 'j': command.json = 1; break;
        default:
            if (request_option(&r, command.name, c, optarg))
                return TOOL_USAGE;
        }
    }
    if (optind == argc) {
        fputs(usage, stderr);
        return TOOL_USAGE;
    }
    if (wrong_usage(&command, argv[optind + 1]))
        return TOOL_USAGE;
    if (command.json)
        report_end(command.name);
    size_t n = (size_t)(argc - optind);
    command.first = 2 * MOST_SCRIPTS + 5;
    command.argv = must_alloc(command.first + n + 1, sizeof(char *));
    memcpy(command.argv + command.first, argv + optind, n * sizeof(char *));
    command.asked = argv + optind;
    status = resolve(&p, &command, argv[optind]);
    if (status)
        return status;
    if (argv0) {
        command.argv[command.first] = (char *)argv0;
        command.asked = command.argv + command.first; /* the kernel has no argv[0] of a script's interpreter */
        command.file = p.path;
    }
    config_remind(command.name);
    status = objection(&p) ? 0 : check_plan(&r, &p, &command);
    if (!status)
        status = object(&p, &command);
    return status ? status : start(&p, &command, loader);
}

int tool_run(int argc, char **argv)
{
    return run(&(struct command){.name = "run"}, run_usage, argc, argv);
}

int tool_build(int argc, char **argv)
{
    return run(&(struct command){.name = "build", .snapshot = "1"}, build_usage, argc, argv);
}
