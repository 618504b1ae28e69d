/* SPDX-License-Identifier: MIT
 *
 * enable/state.c: whether one program starts under mvld, from its snapshot.  That is tried by a start that ends
 * before the program's first constructor (`mvld build --check`).  A unit's own settings, as NoExecPaths=, can keep
 * it from its snapshot all the same, and nobody but systemd can start a program under them: so the process of a unit
 * that runs is looked at, too.
 */
#include "tools/cache/items.h"
#include "tools/common/tools.h"
#include "tools/enable/enable.h"

#include "loader/store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void state_free(struct program_state *s)
{
    free(s->why);
    free(s->remedy);
    free(s->snapshot);
}

static void measure(struct program_state *s)
{
    struct cache_items items = {0};
    struct cached c;
    cached_open(&c, s->snapshot, 0);
    for (uint32_t i = 0; c.state <= CACHE_STALE && i < c.file.view.header->n_texts; i++)
        s->code += c.file.view.texts[i].size;
    if (c.state == CACHE_STALE)
        s->why = must_print("its snapshot is stale: %s", c.why);
    cached_close(&c);
    char *folder = must_print("%.*s", (int)(strrchr(s->snapshot, '/') - s->snapshot), s->snapshot);
    cache_items_add(&items, folder);
    for (size_t i = 0; i < items.n; i++)
        s->size += strcmp(items.at[i].path, s->snapshot) ? 0 : items.at[i].size;
    cache_items_free(&items);
    free(folder);
}

/* Before it may stand that the configuration is to be made anew. */
static const char *last_line(const char *said)
{
    for (const char *next; (next = strchr(said, '\n')) && next[1];)
        said = next + 1;
    return said;
}

/* The loader's last line, without its prefix.  NULL: there is nothing that a snapshot could hold. */
static char *reason(const char *said)
{
    static const char start[] = STORE_REFUSAL;
    const char *line = last_line(said);
    line += strncmp(line, start, strlen(start)) ? 0 : strlen(start);
    if (!strncmp(line, STORE_NOTHING, strlen(STORE_NOTHING)))
        return NULL;
    return must_print("no snapshot is applied: %.*s", (int)strcspn(line, "\n"), line);
}

void state_try(struct program_state *s, const struct way *way, const char *program)
{
    char *said = NULL;

    if (enable_run(way, (const char *const[]){"build", "--check", program, NULL}, &said)) {
        s->why = reason(said);
    } else {
        const char *line = last_line(said);
        s->snapshot = must_print("%.*s", (int)strcspn(line, "\n"), line);
        measure(s);
    }
    free(said);
}

int enable_has_snapshot(const char *program)
{
    struct program_state s = {0};
    state_try(&s, NULL, program);
    int has = s.snapshot && !s.why;
    state_free(&s);
    return has;
}

void state_of(struct program_state *s, const struct change *c)
{
    const char *program = change_program(c);

    *s = (struct program_state){0};
    if (!way_of(c)) {
        s->why = must_print("nothing starts it under mvld, and its configuration is left: %s", c->field[CHANGE_PATH]);
        s->remedy = shell_command("mvld disable", program);
        return;
    }
    s->why = way_trouble(c, &s->remedy);
    if (s->why)
        return;
    if (way_of(c)->enter && geteuid()) {
        s->why = must_print("only root can try a unit");
        s->remedy = shell_command("sudo mvld status", program);
        return;
    }
    state_try(s, way_of(c), program);
    if (s->why)
        s->remedy = shell_command("mvld enable", program);
}

/* The file that a process runs, also if another one is at its path now; to be freed, or NULL. */
static char *executed(pid_t pid)
{
    static const char deleted[] = " (deleted)";
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/%d/exe", pid);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0)
        return NULL;
    path[n] = 0;
    char *end = path + n - strlen(deleted);
    if (end > path && !strcmp(end, deleted))
        *end = 0;
    return must_print("%s", path);
}

/* In a chroot, /proc has other paths of a process that has mounts of its own. */
static int executes(pid_t pid, const char *program)
{
    char link[64], *path = executed(pid);
    struct stat its, file;
    snprintf(link, sizeof link, "/proc/%d/exe", pid);
    int same = (path && !strcmp(path, program)) ||
               (!stat(link, &its) && !stat(program, &file) && its.st_dev == file.st_dev && its.st_ino == file.st_ino);
    free(path);
    return same;
}

void state_of_unit(struct program_state *s, const struct change *c)
{
    if (s->why || !way_of(c)->enter)
        return;
    pid_t pid = unit_process(c->field[CHANGE_PATH]);
    *(pid && executes(pid, change_program(c)) ? &s->process : &s->other) = pid;
    char *snapshot = s->process ? snapshot_of_process(pid) : NULL;
    if (s->process && !snapshot) {
        char *unit = unit_of(c->field[CHANGE_PATH]);
        s->why = must_print("process %d of the unit runs without its snapshot", pid);
        s->remedy = shell_command("systemctl restart", unit);
        free(unit);
    }
    free(snapshot);
}

char *enable_trouble(const struct change *c, char **remedy)
{
    struct program_state s;
    state_of(&s, c);
    state_of_unit(&s, c);
    *remedy = s.remedy;
    free(s.snapshot);
    return s.why;
}

/* What a unit's processes have is no matter: to enable it again mends none that runs. */
int enable_is_stale(const char *program)
{
    char *record = changes_path();
    struct changes rows = {0};
    int made = 0, stale = 0;
    if (record && !access(program, F_OK) && !changes_read(record, &rows))
        for (const struct change *c = NULL; (c = changes_next(&rows, c, program));) {
            made |= strcmp(c->field[CHANGE_KIND], "interp") != 0;
            if (way_of(c)) {
                struct program_state s;
                state_of(&s, c);
                stale |= s.why != NULL;
                state_free(&s);
            }
        }
    changes_free(&rows);
    free(record);
    return made && stale;
}
