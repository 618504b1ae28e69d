/* SPDX-License-Identifier: MIT
 *
 * enable/ways.c: the methods by which `mvld enable` makes a program start under mvld:
 *
 *     wrapper     a small file of the program's name, in a folder that a shell searches before the program's own
 *     unit        a drop-in for a unit of systemd's (unit.c)
 *     set-interp  our loader is the interpreter of the program's file (tools/interp)
 */
#include "tools/changes/made.h"
#include "tools/common/paths.h"
#include "tools/common/tools.h"
#include "tools/enable/enable.h"
#include "tools/interp/interp.h"
#include "tools/run/itself.h"
#include "tools/run/program.h"
#include "tools/run/wrapper.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Also one that does not exist yet, as a new user's ~/.local/bin. */
static int is_same_folder(const char *a, const char *b)
{
    struct stat x, y;
    if (!strcmp(a, b))
        return 1;
    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Whether a shell searches `other`, and before it `folder`, or anything with NULL. */
static int is_searched_before(const char *folder, const char *other)
{
    const char *path = getenv("PATH");
    char *list = must_print("%s", path ? path : ""), *rest = list;
    int first = !folder, both = 0;
    for (char *entry; !both && (entry = strsep(&rest, ":"));) {
        both = is_same_folder(entry, other);
        first |= !both && folder && is_same_folder(entry, folder);
    }
    free(list);
    return first && both;
}

/* The folder for a machine's own commands, or a user's. */
static char *wrapper_folder(const char *of_program)
{
    const char *home = getenv("HOME"), *last = strrchr(of_program, '/');
    if (!geteuid())
        return must_print("/usr/local/%s", last && !strcmp(last, "/sbin") ? "sbin" : "bin");
    return home && *home == '/' ? must_print("%s/.local/bin", home) : NULL;
}

static int is_wrapper_of(const char *path, const char *called)
{
    char *program = wrapper_program(path);
    int same = program && !strcmp(program, called);
    free(program);
    return same;
}

static char *wrapper_place(const struct target *t, const char **why)
{
    const char *slash = strrchr(t->called, '/');
    char *own = must_print("%.*s", slash ? (int)(slash - t->called) : 0, t->called);
    char *folder = wrapper_folder(own), *place = NULL;

    *why = NULL;
    if (!folder)
        *why = "no HOME says where a user's commands go";
    else if (!is_searched_before(folder, own))
        *why = must_print("PATH has no %s before %s, so a wrapper there would not be found: export PATH=%s:%s$PATH", folder,
                          own, folder, is_searched_before(NULL, own) ? "" : must_print("%s:", own));
    else
        place = must_print("%s%s", folder, slash);
    if (place && !access(place, F_OK) && !is_wrapper_of(place, t->called)) {
        *why = must_print("%s is there already", place);
        free(place);
        place = NULL;
    }
    free(folder);
    free(own);
    return place;
}

static char *wrapper_of(const struct target *t, size_t *size) { return wrapper_make(t->called, size); }

static char *interp_place_of(const struct target *t, const char **why)
{
    struct stat st;
    *why = NULL;
    if (!geteuid() || stat(t->program, &st) || st.st_uid == geteuid())
        return must_print("%s", t->program);
    *why = "only its owner and root can change its file (set-interp)";
    return NULL;
}

const struct way ways[] = {
    {"wrapper", "wrapper", wrapper_place, wrapper_of, 0755, NULL},
    {"unit", "unit", unit_place, unit_text, 0644, unit_enter},
    {"set-interp", "interp", interp_place_of, NULL, 0, NULL},
    {0},
};

const struct way *way_of(const struct change *c)
{
    for (const struct way *way = ways; way->name; way++)
        if (!strcmp(c->field[CHANGE_KIND], way->kind))
            return way;
    return NULL;
}

int way_arrange(const struct way *way, const struct target *t, const char *place, int force)
{
    if (!way->text)
        return interp_set(t->program, force) ? -1 : 0;
    size_t size;
    char *text = way->text(t, &size);
    const char *why = enable_make_file(way->kind, place, t->program, text, size, way->mode);
    free(text);
    if (why)
        complain("enable", "%s: %s: %s", t->program, place, why);
    return why ? -1 : 0;
}

/* What no `mvld enable' mends: an upgrade has made something else of the program.  Or NULL. */
static const char *unfit(const char *program)
{
    struct program p;
    if (program_open(&p, program))
        return NULL;
    free(p.path);
    return p.kind == PROGRAM_SCRIPT ? "it is a script" : program_objection(&p);
}

/* Whether another mvld's loader starts it, for instance that of another prefix. */
static int is_foreign(const char *program)
{
    struct program p;
    if (program_open(&p, program))
        return 0;
    free(p.path);
    return p.kind == PROGRAM_FOREIGN;
}

/* Another mvld made it, for instance in another prefix. */
static int is_of_this_mvld(const struct way *way, const struct change *c)
{
    char *called = wrapper_program(c->field[CHANGE_PATH]);
    size_t size;
    char *text = way->text(&(struct target){.program = (char *)change_program(c), .called = called}, &size);
    char *sum = made_sum(text, size);
    int same = !strcmp(sum, c->field[CHANGE_SUM]);
    free(sum);
    free(text);
    free(called);
    return same;
}

char *way_trouble(const struct change *c, char **remedy)
{
    const char *program = change_program(c), *path = c->field[CHANGE_PATH];
    const struct way *way = way_of(c);

    *remedy = shell_command("mvld enable", program);
    if (access(program, F_OK)) {
        *remedy = shell_command("mvld disable", program);
        return must_print("the program is gone");
    }
    const char *why = way->text || !change_stands(c) ? unfit(program) : NULL;
    if (why) {
        *remedy = shell_command("mvld disable", program);
        return must_print("it starts without mvld: %s", why);
    }
    if (!change_stands(c) && !way->text)
        return must_print("it was replaced, and starts without mvld");
    if (!change_stands(c) && access(path, F_OK))
        return must_print("%s is gone", path);
    if (!change_stands(c)) {
        *remedy = shell_command("mvld disable", program);
        return must_print("%s was changed since mvld made it", path);
    }
    if (way->text && !is_of_this_mvld(way, c))
        return must_print("another mvld made %s", path);
    const char *loader = way->text ? path_loader() : c->field[CHANGE_LOADER], *damage = loader_damage(loader);
    if (damage) {
        *remedy = must_print(way->text ? "install mvld again" : "mvld-restore --all");
        return must_print("it %s: %s: %s", way->text ? "starts without mvld" : "does not start", loader, damage);
    }
    free(*remedy);
    *remedy = NULL;
    if (way->text || !is_foreign(program))
        return NULL;
    *remedy = shell_command("mvld disable", program);
    return must_print("it starts under another mvld's loader, %s", loader);
}
