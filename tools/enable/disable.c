/* SPDX-License-Identifier: MIT
 *
 * enable/disable.c: `mvld disable` takes back what the record of changes has of a program, and removes its
 * snapshots; `mvld status` says what is in force.
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
    "whether there is a snapshot that fits, and the command that mends what is not as it should be;\n"
    "then other programs' snapshots that no start takes or that analyses have come for.\n"
    "\n"
    "  --json  as JSON\n"
    "  --help  this text\n"
    "\n"
    "Exit code: 0; 1 when one of them does not start under mvld, or not from a snapshot; 2 for wrong\n"
    "usage.\n";

/* ---- snapshots of a program ------------------------------------------------------------ */

/* Of starts as they are without LD_PRELOAD and the like; of others nobody can tell whether they are wanted. */
struct snapshots {
    unsigned good, others;
    uint64_t code, size; /* bytes of code, and on the disk, of those that starts take */
    enum cache_state state; /* of one that is not good, and */
    char *why;              /* to be freed */
};

static int is_usual(const struct cached *c)
{
    const struct manifest *m = &c->file.view;
    size_t n = strlen(c->path), direct = strlen("-direct");

    return !m->names[m->header->launch_key] && !(n > direct && !strcmp(c->path + n - direct, "-direct"));
}

static void count(struct snapshots *s, const struct cache_item *item, const struct cached *c)
{
    const struct manifest *m = &c->file.view;

    s->good += c->state == CACHE_GOOD;
    s->others += c->state != CACHE_GOOD;
    for (uint32_t i = 0; c->state <= CACHE_STALE && i < m->header->n_texts; i++)
        s->code += m->texts[i].size;
    s->size += c->state <= CACHE_STALE ? item->size : 0;
    if (c->state != CACHE_GOOD && !s->why) {
        s->state = c->state;
        s->why = must_print("%s", c->why);
    }
}

/* Looks at those in one folder, and removes them when `program` is to have none. */
static void look_into(const char *folder, const char *program, int remove, struct snapshots *s)
{
    int lock = remove ? cache_lock_of(folder) : -1;
    struct cache_items items = {0};
    const char *why;

    cache_items_add(&items, folder);
    for (size_t i = 0; i < items.n; i++) {
        struct cached c;
        if (items.at[i].kind != CACHE_SNAPSHOT)
            continue;
        cached_open(&c, items.at[i].path, 0, 0);
        int is_its = c.file.map && !strcmp(c.file.view.names + c.file.view.objects[0].name, program);
        if (is_its && is_usual(&c))
            count(s, &items.at[i], &c);
        cached_close(&c);
        if (is_its && remove && lock >= 0)
            cache_item_remove(&items.at[i], &why);
    }
    cache_items_free(&items);
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
    const char *why = change_undo(record, "", c);
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
        free(snapshots_of(strcmp(c->field[CHANGE_KIND], "file") ? c->field[CHANGE_PATH] : c->field[CHANGE_BEFORE],
                          1).why);
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

/* What is not as it should be, to be freed; or NULL. */
static char *trouble(const struct change *c, const struct snapshots *s)
{
    if (access(c->field[CHANGE_PATH], F_OK))
        return must_print("the program is gone");
    if (!change_stands("", c))
        return must_print("it was replaced, and starts without mvld");
    if (access(c->field[CHANGE_LOADER], X_OK))
        return must_print("it does not start: its loader is gone");
    if (s->good)
        return NULL;
    if (!s->others)
        return must_print("it has no snapshot");
    return must_print("its snapshot is %s: %s", s->state == CACHE_STALE ? "stale" : "out of date", s->why);
}

/* `c` is NULL of a program that is in no record. */
static void print_json(struct json *j, const char *program, const struct change *c, const struct snapshots *s,
                       const char *why, const char *remedy)
{
    json_begin(j, NULL, '{');
    json_string(j, "program", program);
    json_string(j, "by", c ? "set-interp" : NULL);
    json_string(j, "loader", c ? c->field[CHANGE_LOADER] : NULL);
    json_unsigned(j, "snapshots", s->good);
    json_unsigned(j, "code", s->code);
    json_unsigned(j, "size", s->size);
    json_string(j, "trouble", why);
    json_string(j, "remedy", remedy);
    json_end(j, '}');
}

static void print_trouble(const char *program, const char *why, const char *remedy)
{
    print_name(stdout, program);
    printf(": %s -> %s\n", why, remedy);
}

int enable_is_stale(const char *program)
{
    char *record = changes_path("");
    struct changes rows = {0};
    int made = 0, stale = 0;
    if (record && !changes_read(record, &rows))
        for (size_t i = 0; i < rows.n; i++) {
            const struct change *c = &rows.row[i];
            int is_interp = !strcmp(c->field[CHANGE_KIND], "interp");
            made |= !is_interp && enable_concerns(c, program);
            if (is_interp && enable_concerns(c, program) && !access(program, F_OK)) {
                struct snapshots s = snapshots_of(program, 0);
                stale = trouble(c, &s) != NULL;
            }
        }
    changes_free(&rows);
    free(record);
    return made && stale;
}

static int report(const struct change *c, struct json *j)
{
    const char *program = c->field[CHANGE_PATH];
    struct snapshots s = snapshots_of(program, 0);
    char *why = trouble(c, &s);
    char *remedy = why ? must_print("mvld %s %s", access(program, F_OK) ? "disable" : "enable", program) : NULL;

    if (j) {
        print_json(j, program, c, &s, why, remedy);
    } else if (!why) {
        print_name(stdout, program);
        printf(": set-interp, snapshot of %.1f MiB of code\n", (double)s.code / (1 << 20));
    } else {
        print_trouble(program, why, remedy);
    }
    int status = why ? TOOL_FAILED : TOOL_OK;
    free(remedy);
    free(why);
    free(s.why);
    return status;
}

static int is_listed(const struct changes *rows, const char *program)
{
    for (size_t i = 0; i < rows->n; i++)
        if (!strcmp(rows->row[i].field[CHANGE_PATH], program))
            return 1;
    return 0;
}

/* A snapshot of a program that is in no record, and that no start takes or that is stale. */
static void report_other(const struct cached *c, struct json *j)
{
    const char *program = c->file.map ? c->file.view.names + c->file.view.objects[0].name : c->path;
    char *remedy = cached_remedy(c);

    if (j)
        print_json(j, program, NULL, &(struct snapshots){0}, c->why, remedy);
    else
        print_trouble(program, c->why, remedy);
    free(remedy);
}

static void report_others(const struct changes *rows, struct json *j)
{
    struct cache_items items = {0};

    cache_snapshots_add(&items);
    for (size_t i = 0; i < items.n; i++) {
        struct cached c;
        cached_open(&c, items.at[i].path, 0, 0);
        if (c.state != CACHE_GOOD && !(c.file.map && is_listed(rows, c.file.view.names + c.file.view.objects[0].name)))
            report_other(&c, j);
        cached_close(&c);
    }
    cache_items_free(&items);
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
    if (optind == argc)
        report_others(&rows, json ? &j : NULL);
    if (json)
        json_end(&j, ']');
    changes_free(&rows);
    free(record);
    return status;
}
