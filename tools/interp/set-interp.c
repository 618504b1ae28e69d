/* SPDX-License-Identifier: MIT
 *
 * set-interp.c: `mvld set-interp`: makes programs start under ld-mvld.so.1, or restores them.
 */
#include "tools/changes/changes.h"
#include "tools/config/make.h"
#include "tools/interp/interp.h"
#include "tools/common/paths.h"
#include "tools/common/tools.h"
#include "tools/run/itself.h"
#include "tools/run/program.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static const char usage[] =
    "Usage: mvld set-interp [--json] [--force] [--loader FILE] PROGRAM...\n"
    "       mvld set-interp [--json] --restore PROGRAM...\n"
    "       mvld set-interp [--json] --print PROGRAM...\n"
    "\n"
    "Makes programs, found as a shell finds them, start under ld-mvld.so.1 instead of the\n"
    "machine's ld.so, by changing their interpreter (PT_INTERP).  The file is replaced at once, and\n"
    "keeps mode, owner, extended attributes and times.  What was changed is recorded:\n"
    "mvld-restore takes it back, also without mvld.\n"
    "\n"
    "  --restore      make the file again, byte for byte, what it was\n"
    "  --print        only say which interpreter a program has\n"
    "  --loader FILE  use this loader\n"
    "  --force        also programs with set-id bits or capabilities, with another\n"
    "                 interpreter than the machine's, or with data behind the ELF\n"
    "                 file; programs that the machine needs to start or to be mended;\n"
    "                 a loader that does not exist or is truncated, that others may\n"
    "                 change, or that lies on a file system of its own; without a record\n"
    "  --json         say of each program, as JSON, which interpreter it has now\n"
    "  --help         this text\n"
    "\n"
    "Exit code: 0, 1 when a file could not be changed (it is as it was), 2 for wrong\n"
    "usage.\n";

struct request {
    enum { SET, RESTORE, PRINT } action;
    const char *loader;
    int force;
    struct json *json; /* or NULL */
};

/* Whether the interpreter is the machine's, by any of its names. */
static int is_host_loader(const char *interp)
{
    char *a = realpath(interp, NULL), *b = realpath(path_host_loader(), NULL);
    char *musl = realpath(MVLD_HOST_LOADER_MUSL, NULL);
    int same = !strcmp(interp, MVLD_HOST_LOADER) || (a && b && !strcmp(a, b)) ||
               (a && musl && !strcmp(a, musl));
    free(a);
    free(b);
    free(musl);
    return same;
}

/* Why the program must not be changed, or NULL. */
static const char *objection(const struct elf_file *f, const char *path, const char *loader)
{
    struct stat st;
    const char *why;
    if (stat(path, &st))
        return "it cannot be looked at";
    if (st.st_mode & (S_ISUID | S_ISGID))
        return "it has set-id bits (--force changes it nevertheless)";
    if (getxattr(path, "security.capability", NULL, 0) > 0)
        return "it has file capabilities (--force changes it nevertheless)";
    if (!is_host_loader(interp_of(f)))
        return "its interpreter is not the machine's (--force changes it nevertheless)";
    if (interp_payload(f))
        return "data follows the ELF file, as in a self-extracting program "
               "(--force changes it nevertheless)";
    why = interp_essential(path);
    return why ? why : loader_objection(loader, path);
}

/* The row is written before the change is made. */
static const char *record_change(const char *path, const char *loader, const char *before)
{
    const struct change row = {{"interp", path, loader, before}};
    char *record = changes_path();
    const char *why = record ? changes_add(record, &row)
                             : "there is no folder for the record of changes: neither HOME nor XDG_STATE_HOME";
    free(record);
    return why;
}

static const char *forget_change(const char *path)
{
    const struct change row = {{"interp", path}};
    char *record = changes_path();
    const char *why = record ? changes_remove(record, &row) : NULL;
    free(record);
    return why;
}

static int is_recorded(const char *path)
{
    char *record = changes_path();
    struct changes rows = {0};
    const struct change *row = NULL;

    if (record && !changes_read(record, &rows))
        while ((row = changes_next(&rows, row, path)) && strcmp(row->field[CHANGE_KIND], "interp") != 0)
            ;
    changes_free(&rows);
    free(record);
    return row != NULL;
}

static int starts_by(const char *path, const char *loader)
{
    struct elf_file f;
    const char *interp = elf_file_open(&f, path) ? NULL : interp_of(&f);
    int is_same = interp && !strcmp(interp, loader);

    elf_file_close(&f);
    return is_same;
}

/* NULL, or why the program is as it was. */
static const char *set_interp(const struct request *r, struct elf_file *f, const char *path)
{
    struct bytes now = {0};
    const char *interp = interp_of(f), *why = NULL, *damage = r->force ? NULL : loader_damage(r->loader);

    if (damage)
        return must_print("%s: %s (--force changes it nevertheless)", r->loader, damage);
    if (interp && !strcmp(interp, r->loader))
        return NULL;
    if (interp && !r->force)
        why = objection(f, path, r->loader);
    if (why)
        return why;
    if (interp_edit(f, r->loader, &now))
        return f->error;
    record_append(f, &now);
    int recorded = is_recorded(path);
    why = record_change(path, r->loader, interp);
    if (!why || r->force)
        why = replace_file(f, &now);
    if (why && !recorded && !starts_by(path, r->loader))
        forget_change(path);
    free(now.at);
    return why;
}

static const char *restore(const struct elf_file *f, const char *path)
{
    struct bytes before;
    const char *why = NULL;
    int result = record_restore(f, &before, &why);

    if (result > 0)
        why = "set-interp left no record in it: nothing to restore";
    if (result)
        return why;
    why = replace_file(f, &before);
    if (!why)
        why = forget_change(path);
    free(before.at);
    return why;
}

static void print(const struct elf_file *f, const char *file)
{
    const char *interp = interp_of(f);
    print_name(stdout, file);
    fputs(": ", stdout);
    print_name(stdout, interp ? interp : "none");
    putchar('\n');
}

/* Reads the file again: it may have been replaced. */
static void print_json(struct json *j, const char *file, const char *path, const char *why)
{
    struct elf_file f;
    int failed = elf_file_open(&f, path ? path : file);

    json_begin(j, NULL, '{');
    json_string(j, "program", path ? path : file);
    json_string(j, "interpreter", failed ? NULL : interp_of(&f));
    json_string(j, "why", why);
    json_end(j, '}');
    elf_file_close(&f);
}

static int handle_file(const struct request *r, const char *file)
{
    struct elf_file f;
    char *found = strchr(file, '/') ? NULL : program_find(file);
    char *path = realpath(found ? found : file, NULL); /* keeps a symbolic link */
    const char *why = NULL;

    if (elf_file_open(&f, path ? path : file))
        why = f.error;
    else if (r->action == RESTORE)
        why = restore(&f, path);
    else if (r->action == SET)
        why = set_interp(r, &f, path);
    if (why)
        complain("set-interp", "%s: %s", file, why);
    if (r->json)
        print_json(r->json, file, path, why);
    else if (r->action == PRINT && !why)
        print(&f, file);
    elf_file_close(&f);
    free(found);
    free(path);
    return why ? TOOL_FAILED : TOOL_OK;
}

int interp_set(const char *program, int force)
{
    return handle_file(&(struct request){.action = SET, .loader = path_loader(), .force = force}, program);
}

int tool_set_interp(int argc, char **argv)
{
    static const struct option options[] = {{"restore", no_argument, NULL, 'r'},
                                            {"print", no_argument, NULL, 'p'},
                                            {"loader", required_argument, NULL, 'l'},
                                            {"force", no_argument, NULL, 'f'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    struct json json = {.to = stdout};
    struct request r = {.action = SET, .loader = path_loader()};
    int status = TOOL_OK, asked = 0, c;

    while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (c) {
        case 'r': r.action = RESTORE; asked |= 1; break;
        case 'p': r.action = PRINT; asked |= 2; break;
        case 'l': r.loader = optarg; break;
        case 'f': r.force = 1; break;
        case 'j': r.json = &json; break;
        case 'h': fputs(usage, stdout); return TOOL_OK;
        default: return TOOL_USAGE;
        }
    }
    if (optind == argc || asked == 3) {
        fputs(usage, stderr);
        return TOOL_USAGE;
    }
    if (r.action == SET && (*r.loader != '/' || strlen(r.loader) >= 4096)) {
        complain("set-interp", "%s: the loader must be an absolute path", r.loader);
        return TOOL_USAGE;
    }
    char *record = changes_path();
    const char *why = NULL;
    int lock = -1;
    if (r.action != PRINT)
        lock = changes_lock(record, "set-interp", r.action == SET, &why);
    int refused = why && r.action == SET && !r.force;
    if (refused) {
        complain("set-interp", "%s", why);
        status = TOOL_FAILED;
    }
    if (r.json)
        json_begin(r.json, NULL, '[');
    for (int i = optind; i < argc && !refused; i++)
        if (handle_file(&r, argv[i]))
            status = TOOL_FAILED;
    if (r.json)
        json_end(r.json, ']');
    if (lock >= 0)
        close(lock);
    free(record);
    if (r.action == SET && !refused)
        config_remind("set-interp");
    return status;
}
