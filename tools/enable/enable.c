/* SPDX-License-Identifier: MIT
 *
 * enable/enable.c: `mvld enable`: a program starts under mvld from now on, from a snapshot.
 *
 * The steps are those that a user would take one by one, each recorded before it is done:
 *
 *     a file for the program in apps.d, and `mvld config`
 *     `mvld set-interp`
 *     `mvld analyze` of the program, as it is now, and its libraries
 *     `mvld build`, whose snapshot the next start maps
 *
 * When one fails, those before it are taken back.  Where a step was done before it is done again: so
 * `enable` also renews what an upgrade has left behind.
 */
#include "tools/cache/items.h"
#include "tools/common/paths.h"
#include "tools/common/tools.h"
#include "tools/enable/enable.h"
#include "tools/run/program.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char usage[] =
    "Usage: mvld enable [--pass PASS] [--force] PROGRAM...\n"
    "       mvld enable --stale\n"
    "\n"
    "Each PROGRAM starts under mvld from now on, from a snapshot: writes a file for it in apps.d,\n"
    "changes its interpreter, analyses it and its libraries, and builds the snapshot.  Say it again\n"
    "after an upgrade.  `mvld disable' takes everything back, `mvld status' lists it, and `mvld try'\n"
    "says whether it is worth it.\n"
    "\n"
    "  --pass PASS  run this pass (again for more) instead of direct-calls\n"
    "  --force      also a program that set-interp leaves alone\n"
    "  --stale      again those that were enabled and an upgrade has left behind (mvld status)\n"
    "  --help       this text\n"
    "\n"
    "Exit code: 0; 1 when a program could not be enabled (it is as it was); 2 for wrong usage.\n";

struct wish {
    char *passes;
    int force;
};

/* The program's file in apps.d, by its name; folders on the way are made. */
static char *config_file(const char *program)
{
    char *folder = enable_config_folder(), *path = NULL;
    if (folder) {
        char *apps = must_print("%s/apps.d", folder);
        if ((mkdir(folder, 0755) && errno != EEXIST) || (mkdir(apps, 0755) && errno != EEXIST))
            complain("enable", "%s: %s", apps, strerror(errno));
        else
            path = must_print("%s/%s.conf", apps, strrchr(program, '/') + 1);
        free(apps);
    } else {
        complain("enable", "neither HOME nor XDG_CONFIG_HOME says where the configuration lies");
    }
    free(folder);
    return path;
}

static int is_recorded(const char *path, const char *program)
{
    char *record = changes_path("");
    struct changes rows = {0};
    int found = 0;
    if (record && !changes_read(record, &rows))
        for (size_t i = 0; i < rows.n; i++)
            found |= !strcmp(rows.row[i].field[CHANGE_PATH], path) && enable_concerns(&rows.row[i], program);
    changes_free(&rows);
    free(record);
    return found;
}

/* 0; or -1: said.  *made: it was not there before. */
static int configure(const struct wish *w, const char *program, int *made)
{
    char *path = config_file(program);
    const char *why = NULL;
    if (!path)
        return -1;
    *made = access(path, F_OK) != 0;
    if (*made) {
        char *text = must_print("; made by `mvld enable'; `mvld disable' removes it\n"
                                "[app]\nmatch = %s\npasses = %s\non-miss = build\n", program, w->passes);
        why = enable_make_file(path, program, text);
        free(text);
    } else if (!is_recorded(path, program)) {
        why = must_print("%s is there, and was not made for this program: nothing is configured over it", path);
    }
    if (why)
        complain("enable", "%s: %s", program, why);
    free(path);
    return why || enable_make_config() ? -1 : 0;
}

static const char *objection(const char *program)
{
    struct program p;
    if (program_open(&p, program))
        return strerror(errno);
    return p.kind == PROGRAM_OURS ? NULL : p.kind == PROGRAM_SCRIPT ? "it is a script: enable its interpreter"
                                                                    : program_objection(&p);
}

static int enable(const struct wish *w, const char *name)
{
    char *found = program_find(name), *program = found ? realpath(found, NULL) : NULL;
    const char *why = program ? objection(program) : strerror(errno);
    int made = 0, failed;

    if (!why && strpbrk(program, ",; \t"))
        why = "a path with a comma, a semicolon or a space cannot be configured";
    if (why) {
        complain("enable", "%s: %s", name, why);
        return TOOL_FAILED;
    }
    const char *const interp[] = {"set-interp", program, w->force ? "--force" : NULL, NULL};
    failed = configure(w, program, &made) || enable_run(interp);
    if (!failed)
        progress("[1/2] analysing %s and its libraries\n", program);
    failed = failed || enable_run((const char *const[]){"analyze", "--program", program, NULL});
    if (!failed)
        progress("[2/2] building its snapshot\n");
    failed = failed || enable_run((const char *const[]){"build", program, NULL});
    if (failed && made)
        enable_run((const char *const[]){"disable", program, NULL});
    if (failed)
        complain("enable", "%s: not enabled%s", program, made ? ": it is as it was" : "");
    else
        printf("%s starts under mvld; `mvld disable %s' takes it back\n", program, program);
    free(program);
    free(found);
    return failed ? TOOL_FAILED : TOOL_OK;
}

/* A program that is disabled meanwhile is left alone: the record is asked again for each. */
static int enable_stale(const struct wish *w)
{
    char *record = changes_path("");
    struct changes rows = {0};
    const char *why = record ? changes_read(record, &rows) : NULL;
    int status = why ? TOOL_FAILED : TOOL_OK;

    if (why)
        complain("enable", "%s", why);
    for (size_t i = 0; i < rows.n; i++)
        if (!strcmp(rows.row[i].field[CHANGE_KIND], "interp") && enable_is_stale(rows.row[i].field[CHANGE_PATH]))
            status |= enable(w, rows.row[i].field[CHANGE_PATH]);
    changes_free(&rows);
    free(record);
    return status;
}

int tool_enable(int argc, char **argv)
{
    static const struct option options[] = {{"pass", required_argument, NULL, 'p'},
                                            {"force", no_argument, NULL, 'f'},
                                            {"stale", no_argument, NULL, 's'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct wish w = {0};
    int status = TOOL_OK, stale = 0, c;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (c) {
        case 'p': w.passes = w.passes ? must_print("%s, %s", w.passes, optarg) : optarg; break;
        case 'f': w.force = 1; break;
        case 's': stale = 1; break;
        case 'h': fputs(usage, stdout); return TOOL_OK;
        default: return TOOL_USAGE;
        }
    }
    if (stale == (optind < argc)) {
        fputs(usage, stderr);
        return TOOL_USAGE;
    }
    if (path_pass_folders()) {
        complain("enable", "this mvld is not installed, and its passes would not be found: ./dev install");
        return TOOL_FAILED;
    }
    w.passes = w.passes ? w.passes : "direct-calls";
    if (!geteuid()) /* a cache of root's own would serve root alone */
        unsetenv("XDG_CACHE_HOME");
    int64_t start = time(NULL);
    if (stale)
        status = enable_stale(&w);
    for (int i = optind; i < argc; i++)
        status |= enable(&w, argv[i]);
    if (cache_keep_within("enable", cache_bound("enable"), start)) /* not what was made just now */
        status = TOOL_FAILED;
    return status;
}
