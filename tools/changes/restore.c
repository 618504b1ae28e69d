/* SPDX-License-Identifier: MIT
 *
 * changes/restore.c: mvld-restore: reverts mvld's changes, on a machine without the rest of mvld,
 * or where no dynamic program starts.  It is static, and runs no other program.
 */
#include "tools/changes/cached.h"
#include "tools/changes/changes.h"
#include "tools/common/tools.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char usage[] =
    "Usage: mvld-restore [--root FOLDER] [--json] --all | PROGRAM...\n"
    "       mvld-restore [--root FOLDER] [--json] --list\n"
    "\n"
    "Makes programs that mvld changed what they were before, byte for byte; what `mvld enable' made for\n"
    "them goes, and their snapshots.  It needs neither mvld nor a loader.\n"
    "\n"
    "  --all          all programs in the record of changes; the record goes, and the cache\n"
    "  --list         say which programs are in the record, and what is true of each\n"
    "  --json         say of each change, as JSON, whether it stands, or whether it was taken back\n"
    "  --root FOLDER  for the machine whose root folder is mounted there (chroot); paths are that machine's\n"
    "  --help         this text\n"
    "\n"
    "The record is /var/lib/mvld/changes, of other users than root ~/.local/state/mvld/changes.\n"
    "Exit code: 0, 1 when something could not be taken back, 2 for wrong usage.\n";

static int is_named(const struct change *c, char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(c->field[CHANGE_PATH], names[i]) || !strcmp(change_program(c), names[i]))
            return 1;
    return 0;
}

static int is_recorded(const struct changes *rows, char *name)
{
    for (size_t i = 0; i < rows->n; i++)
        if (is_named(&rows->row[i], &name, 1))
            return 1;
    return 0;
}

/* The keys that all objects have. */
static void json_change(struct json *j, const struct change *c)
{
    json_begin(j, NULL, '{');
    json_string(j, "program", change_program(c));
    json_string(j, "changed", c->field[CHANGE_PATH]);
}

static void list_json(const struct change *c, struct json *j)
{
    json_change(j, c);
    json_string(j, "loader", strcmp(c->field[CHANGE_KIND], "interp") ? NULL : c->field[CHANGE_LOADER]);
    json_bool(j, "stands", change_stands(c));
    json_end(j, '}');
}

static void list_change(const struct change *c)
{
    print_name(stdout, c->field[CHANGE_PATH]);
    if (!change_stands(c))
        puts(": no longer changed");
    else if (!strcmp(c->field[CHANGE_KIND], "interp"))
        printf(": %s\n", c->field[CHANGE_LOADER]);
    else
        printf(": made for %s\n", change_program(c));
}

static int undo_change(const char *record, const struct change *c, struct json *j)
{
    const char *why = change_undo(record, c);
    if (j) {
        json_change(j, c);
        json_string(j, "why", why);
        json_end(j, '}');
    }
    if (why) {
        fprintf(stderr, "mvld-restore: %s: %s\n", c->field[CHANGE_PATH], why);
        return TOOL_FAILED;
    }
    cached_snapshots_remove(change_program(c));
    return TOOL_OK;
}

/* So no link leads out of it. */
static int enter(const char *root)
{
    unsetenv("MVLD_STATE");
    return chroot(root) || chdir("/");
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"all", no_argument, NULL, 'a'},
                                            {"list", no_argument, NULL, 'l'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"root", required_argument, NULL, 'r'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct json json = {.to = stdout}, *j = NULL;
    const char *root = NULL;
    int all = 0, list = 0, status = TOOL_OK, c;

    open_standard();
    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (c) {
        case 'a': all = 1; break;
        case 'l': list = 1; break;
        case 'j': j = &json; break;
        case 'r': root = optarg; break;
        case 'h': fputs(usage, stdout); return TOOL_OK;
        default: return TOOL_USAGE;
        }
    }
    if (all + list + (optind < argc) != 1) {
        fputs(usage, stderr);
        return TOOL_USAGE;
    }
    if (root && enter(root)) {
        fprintf(stderr, "mvld-restore: %s: %s\n", root, strerror(errno));
        return TOOL_FAILED;
    }
    if (!geteuid())
        umask(022); /* everybody may read the record */
    char *record = changes_path();
    struct changes rows = {0};
    const char *why = record ? NULL : "no HOME says where the record is";
    int lock = list || why ? -1 : changes_lock(record, "restore", 0, &why);
    if (!why)
        why = changes_read(record, &rows);
    if (why) {
        fprintf(stderr, "mvld-restore: %s\n", why);
        if (j)
            puts("[]");
        return TOOL_FAILED;
    }
    int unknown = 0;
    if (j)
        json_begin(j, NULL, '[');
    for (int i = optind; i < argc; i++)
        if (!is_recorded(&rows, argv[i])) {
            fprintf(stderr, "mvld-restore: %s is not in the record; --list shows what is\n", argv[i]);
            unknown = 1;
        }
    for (size_t i = rows.n; i-- > 0;) { /* the newest first */
        if (list)
            j ? list_json(&rows.row[i], j) : list_change(&rows.row[i]);
        else if (all || is_named(&rows.row[i], argv + optind, argc - optind))
            status |= undo_change(record, &rows.row[i], j);
    }
    if (j)
        json_end(j, ']');
    if (unknown)
        status = TOOL_FAILED;
    if (all && !status) {
        cached_remove_all();
        changes_end(record);
    }
    if (lock >= 0)
        close(lock);
    changes_free(&rows);
    free(record);
    if (ferror(stdout) || fflush(stdout)) {
        fputs("mvld-restore: the output cannot be written\n", stderr);
        status = TOOL_FAILED;
    }
    return status;
}
