/* SPDX-License-Identifier: MIT
 *
 * enable/disable.c: `mvld disable` takes back what the record of changes has of a program, and removes its
 * snapshots; `mvld status` says what is in force.
 */
#include "rimf/base/sys.h"
#include "tools/cache/state.h"
#include "tools/common/paths.h"
#include "tools/common/tools.h"
#include "tools/enable/enable.h"
#include "tools/run/program.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char disable_usage[] =
    "Usage: mvld disable PROGRAM... | --all\n"
    "\n"
    "Takes back what `mvld enable' and `mvld set-interp' did for each PROGRAM: its file is what it\n"
    "was, byte for byte, its file in apps.d and its snapshots are gone.\n"
    "\n"
    "  --all   for all programs in the record of changes; analyses and all else in the cache go, too\n"
    "  --help  this text\n"
    "\n"
    "Exit code: 0; 1 when something could not be taken back; 2 for wrong usage.\n";

static const char status_usage[] =
    "Usage: mvld status [--json] [PROGRAM...]\n"
    "\n"
    "Lists the programs that were enabled or changed by set-interp: whether they start under mvld,\n"
    "whether there is a snapshot that fits, and the command that mends what is not as it should be.\n"
    "\n"
    "  --json  as JSON\n"
    "  --help  this text\n"
    "\n"
    "Exit code: 0; 1 when one of them does not start under mvld, or not from a snapshot; 2 for wrong\n"
    "usage.\n";

/* ---- snapshots of a program ------------------------------------------------------------ */

struct snapshots {
    unsigned good, others;
    uint64_t code; /* bytes, of the good ones */
};

/* Looks at those in one folder, and removes them when `program` is to have none. */
static void look_into(const char *folder, const char *program, int remove, struct snapshots *s)
{
    int lock = remove ? cache_lock_of(folder) : -1;
    DIR *d = opendir(folder);
    struct dirent *entry;
    const char *why;

    while (d && (entry = readdir(d))) {
        struct cached c;
        char *path = must_print("%s/%s", folder, entry->d_name);
        if (cached_is_folder(entry->d_name)) {
            cached_open(&c, path, 0, 0);
            int is_its = c.file.map && !strcmp(c.file.view.names + c.file.view.objects[0].name, program);
            s->good += is_its && c.state == CACHE_GOOD;
            s->others += is_its && c.state != CACHE_GOOD;
            for (uint32_t i = 0; is_its && c.state == CACHE_GOOD && i < c.file.view.header->n_texts; i++)
                s->code += c.file.view.texts[i].size;
            cached_close(&c);
            if (is_its && remove && lock >= 0)
                manifest_remove(&rimf_sys_kernel, AT_FDCWD, path, geteuid(), &why);
        }
        free(path);
    }
    if (d)
        closedir(d);
    if (lock >= 0)
        close(lock);
}

static struct snapshots snapshots_of(const char *program, int remove)
{
    struct snapshots s = {0};
    char own[4096];
    const char *wrong;
    if (!remove || !geteuid())
        look_into(MANIFEST_SYSTEM_FOLDER, program, remove, &s);
    if (path_users_cache(own, sizeof own, "snapshots", &wrong))
        look_into(own, program, remove, &s);
    return s;
}

/* ---- disable ------------------------------------------------------------------------- */

static int take_back(const char *record, const struct change *c)
{
    const char *why = change_undo("", c);
    if (!why || !change_stands("", c)) {
        const char *kept = changes_remove(record, c);
        why = why ? why : kept;
    }
    if (why)
        complain("disable", "%s: %s", c->field[CHANGE_PATH], why);
    return why ? TOOL_FAILED : TOOL_OK;
}

/* With NULL all; how many rows there were. */
static size_t disable(const char *record, const struct changes *rows, const char *program, int *status)
{
    size_t n = 0;
    for (size_t i = rows->n; i-- > 0;) {
        const struct change *c = &rows->row[i];
        if (program && !enable_concerns(c, program))
            continue;
        n++;
        *status |= take_back(record, c);
        snapshots_of(strcmp(c->field[CHANGE_KIND], "file") ? c->field[CHANGE_PATH] : c->field[CHANGE_BEFORE], 1);
    }
    return n;
}

static char *program_named(const char *name)
{
    char *found = program_find(name), *real = realpath(found ? found : name, NULL);
    free(found);
    return real ? real : must_print("%s", name); /* it may be gone */
}

int tool_disable(int argc, char **argv)
{
    static const struct option options[] = {{"all", no_argument, NULL, 'a'}, {"help", no_argument, NULL, 'h'}, {0}};
    int all = 0, status = TOOL_OK, c;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (c) {
        case 'a': all = 1; break;
        case 'h': fputs(disable_usage, stdout); return TOOL_OK;
        default: return TOOL_USAGE;
        }
    }
    if (all == (optind < argc)) {
        fputs(disable_usage, stderr);
        return TOOL_USAGE;
    }
    char *record = changes_path("");
    struct changes rows = {0};
    const char *why = record ? changes_read(record, &rows) : "no HOME says where the record of changes is";
    if (why) {
        complain("disable", "%s", why);
        return TOOL_FAILED;
    }
    if (all)
        disable(record, &rows, NULL, &status);
    for (int i = optind; i < argc; i++) {
        char *program = program_named(argv[i]);
        if (!disable(record, &rows, program, &status)) {
            complain("disable", "%s: it is not in the record of changes; mvld status lists what is", program);
            status = TOOL_FAILED;
        }
        free(program);
    }
    if (rows.n)
        status |= enable_make_config();
    if (all && !status) { /* and nothing is left in /var */
        const char *wrong;
        char own[4096] = "";
        if (!geteuid())
            remove_tree("/var/cache/mvld");
        else if (path_users_cache(own, sizeof own, "", &wrong))
            remove_tree(own);
        *strrchr(record, '/') = 0;
        remove_tree(record);
    }
    changes_free(&rows);
    free(record);
    return status;
}

/* ---- status --------------------------------------------------------------------------- */

/* What is not as it should be, or NULL. */
static const char *trouble(const struct change *c, const struct snapshots *s)
{
    if (access(c->field[CHANGE_PATH], F_OK))
        return "the program is gone";
    if (!change_stands("", c))
        return "it was replaced, and starts without mvld";
    if (access(c->field[CHANGE_LOADER], X_OK))
        return "it does not start: its loader is gone";
    if (!s->good)
        return s->others ? "its snapshot is out of date" : "it has no snapshot";
    return NULL;
}

static int report(const struct change *c, struct json *j)
{
    const char *program = c->field[CHANGE_PATH];
    struct snapshots s = snapshots_of(program, 0);
    const char *why = trouble(c, &s);
    char *remedy = !why ? NULL : must_print("mvld %s %s", access(program, F_OK) ? "disable" : "enable", program);

    if (j) {
        json_begin(j, NULL, '{');
        json_string(j, "program", program);
        json_string(j, "by", "set-interp");
        json_string(j, "loader", c->field[CHANGE_LOADER]);
        json_unsigned(j, "snapshots", s.good);
        json_unsigned(j, "code", s.code);
        json_string(j, "trouble", why);
        json_string(j, "remedy", remedy);
        json_end(j, '}');
    } else {
        print_name(stdout, program);
        if (why)
            printf(": %s -> %s\n", why, remedy);
        else
            printf(": set-interp, snapshot of %.1f MiB of code\n", (double)s.code / (1 << 20));
    }
    free(remedy);
    return why ? TOOL_FAILED : TOOL_OK;
}

int tool_status(int argc, char **argv)
{
    static const struct option options[] = {{"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {0}};
    struct json j = {.to = stdout};
    int json = 0, status = TOOL_OK, c;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (c) {
        case 'j': json = 1; break;
        case 'h': fputs(status_usage, stdout); return TOOL_OK;
        default: return TOOL_USAGE;
        }
    }
    char *record = changes_path("");
    struct changes rows = {0};
    const char *why = record ? changes_read(record, &rows) : NULL;
    if (why) {
        complain("status", "%s", why);
        return TOOL_FAILED;
    }
    if (json)
        json_begin(&j, NULL, '[');
    for (size_t i = 0; i < rows.n; i++) {
        int wanted = optind == argc;
        for (int k = optind; k < argc; k++) {
            char *program = program_named(argv[k]);
            wanted |= !strcmp(rows.row[i].field[CHANGE_PATH], program);
            free(program);
        }
        if (wanted && !strcmp(rows.row[i].field[CHANGE_KIND], "interp"))
            status |= report(&rows.row[i], json ? &j : NULL);
    }
    if (json)
        json_end(&j, ']');
    changes_free(&rows);
    free(record);
    return status;
}
