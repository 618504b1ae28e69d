/* SPDX-License-Identifier: MIT
 *
 * enable/disable.c: `mvld disable`: reverts all recorded changes of a program, and removes its
 * snapshots.
 */
#include "tools/changes/cached.h"
#include "tools/common/tools.h"
#include "tools/enable/enable.h"
#include "tools/run/program.h"
#include "tools/run/wrapper.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char disable_usage[] =
    "Usage: mvld disable [--json] PROGRAM... | --all\n"
    "\n"
    "Takes back what `mvld enable' and `mvld set-interp' did for each PROGRAM: its file is what it\n"
    "was, byte for byte, its file in apps.d and its snapshots are gone.\n"
    "\n"
    "  --all   for all programs in the record of changes; analyses and all else in the cache go, too\n"
    "  --json  say of each change, as JSON, whether it was taken back\n"
    "  --help  this text\n"
    "\n"
    "Exit code: 0; 1 when something could not be taken back; 2 for wrong usage.\n";

/* ---- disable ------------------------------------------------------------------------- */

static void print_json(struct json *j, const char *program, const char *changed, const char *why)
{
    json_begin(j, NULL, '{');
    json_string(j, "program", program);
    json_string(j, "changed", changed);
    json_string(j, "why", why);
    json_end(j, '}');
}

static int take_back(const char *record, const struct change *c, struct json *j)
{
    const char *why = change_undo(record, c);
    if (why)
        complain("disable", "%s: %s", c->field[CHANGE_PATH], why);
    if (j)
        print_json(j, change_program(c), c->field[CHANGE_PATH], why);
    return why ? TOOL_FAILED : TOOL_OK;
}

/* With NULL for all programs; returns the number of rows. */
static size_t disable(const char *record, const struct changes *rows, const char *program, struct json *j, int *status)
{
    size_t n = 0;
    for (size_t i = rows->n; i-- > 0;) {
        const struct change *c = &rows->row[i];
        const struct way *way = way_of(c);
        if (program && strcmp(change_program(c), program))
            continue;
        n++;
        cached_snapshots_remove(change_program(c));
        *status |= take_back(record, c, j);
        if (way && way->enter)
            unit_reload();
    }
    return n;
}

/* For a missing program only its rows tell. */
static const char *recorded_program(const struct changes *rows, const char *name, const char *found)
{
    for (size_t i = 0; i < rows->n; i++) {
        const char *path = rows->row[i].field[CHANGE_PATH];
        char *called = wrapper_program(path);
        int is_it = !strcmp(path, name) || (called && found && !strcmp(called, found));
        free(called);
        if (is_it)
            return change_program(&rows->row[i]);
    }
    return name;
}

/* Also of a file that is gone, if its folder is there; or NULL. */
static char *real_path(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *real = realpath(path, NULL);
    if (real || !slash)
        return real;
    char *folder = must_print("%.*s/", (int)(slash - path), path), *at = realpath(folder, NULL);
    real = at ? must_print("%s/%s", strcmp(at, "/") ? at : "", slash + 1) : NULL;
    free(folder);
    free(at);
    return real;
}

char *enable_program(const struct changes *rows, const char *name)
{
    char *found = program_find(name), *wrapped = found ? NULL : wrapper_program(name);
    const char *path = found ? found : wrapped ? wrapped : name;
    /* An upgrade may have made a link of it. */
    char *real = changes_next(rows, NULL, path) ? must_print("%s", path) : real_path(path);
    if (!real || (!changes_next(rows, NULL, real) && access(real, F_OK))) {
        free(real);
        real = must_print("%s", recorded_program(rows, name, path));
    }
    free(found);
    free(wrapped);
    return real;
}

static int disable_named(const char *record, const struct changes *rows, const char *name, struct json *j)
{
    char *program = enable_program(rows, name);
    int status = TOOL_OK;
    if (!disable(record, rows, program, j, &status)) {
        char *why = must_print("it is not in the record of changes, %s", record ? record : "which needs a HOME");
        complain("disable", "%s: %s", program, why);
        if (j)
            print_json(j, program, NULL, why);
        free(why);
        status = TOOL_FAILED;
    }
    free(program);
    return status;
}

int tool_disable(int argc, char **argv)
{
    static const struct option options[] = {{"all", no_argument, NULL, 'a'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct json json = {.to = stdout}, *j = NULL;
    int all = 0, status = TOOL_OK, c;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (c) {
        case 'a': all = 1; break;
        case 'j': j = &json; break;
        case 'h': fputs(disable_usage, stdout); return TOOL_OK;
        default: return TOOL_USAGE;
        }
    }
    if (all == (optind < argc)) {
        fputs(disable_usage, stderr);
        return TOOL_USAGE;
    }
    char *record = changes_path();
    struct changes rows = {0};
    const char *why;
    int lock = changes_lock(record, "disable", 0, &why);
    if (!why)
        why = changes_read(record, &rows);
    if (why) {
        complain("disable", "%s", why);
        if (j)
            puts("[]");
        return TOOL_FAILED;
    }
    if (j)
        json_begin(j, NULL, '[');
    if (all)
        disable(record, &rows, NULL, j, &status);
    for (int i = optind; i < argc; i++)
        status |= disable_named(record, &rows, argv[i], j);
    if (j)
        json_end(j, ']');
    if (rows.n)
        status |= enable_make_config();
    if (all && !status) { /* and nothing is left in /var */
        cached_remove_all();
        changes_end(record);
    }
    if (lock >= 0)
        close(lock);
    changes_free(&rows);
    free(record);
    return status;
}
