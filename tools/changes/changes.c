/* SPDX-License-Identifier: MIT
 *
 * changes/changes.c: reads and writes the record of changes.
 *
 * A new record is written under another name, synced and renamed: a reader sees a complete record.
 * A tool holds the lock on the folder from before it reads the record until its last change is made
 * or reverted.  So no tool adds a row while another removes it, and a change has its row even if a
 * tool is killed.
 */
#include "tools/changes/changes.h"
#include "tools/changes/made.h"
#include "tools/common/tools.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define SYSTEM_FOLDER "/var/lib/mvld"

char *changes_path(void)
{
    const char *state = getenv("MVLD_STATE"), *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (!state && !geteuid())
        return must_print(SYSTEM_FOLDER "/changes");
    if (state && *state == '/')
        return must_print("%s/changes", state);
    if (xdg && *xdg == '/')
        return must_print("%s/mvld/changes", xdg);
    return home && *home == '/' ? must_print("%s/.local/state/mvld/changes", home) : NULL;
}

char *changes_path_of_machine(void)
{
    return geteuid() && !getenv("MVLD_STATE") ? must_print(SYSTEM_FOLDER "/changes") : NULL;
}

static const char *failed(const char *path, const char *what)
{
    return must_print("%s: %s: %s", path, what, strerror(errno));
}

/* Splits a line into fields.  0 if it has too few or too many. */
static int parse_row(char *line, struct change *row)
{
    size_t n = 0;
    for (char *field; (field = strsep(&line, "\t")); n++)
        if (n == CHANGE_FIELDS || !*field)
            return 0;
        else
            row->field[n] = field;
    return n == CHANGE_FIELDS && row->field[CHANGE_PATH][0] == '/';
}

static int is_folder(const struct change *row)
{
    return !strcmp(row->field[CHANGE_KIND], "folder");
}

static void add_row(struct change **rows, size_t *n, const struct change *row)
{
    *rows = must_grow(*rows, *n + 1, sizeof **rows);
    (*rows)[(*n)++] = *row;
}

const char *changes_read(const char *path, struct changes *c)
{
    *c = (struct changes){.text = read_file(path)};
    if (!c->text)
        return errno == ENOENT ? NULL : failed(path, "cannot be read");
    char *rest = c->text;
    for (char *line; (line = strsep(&rest, "\n"));) {
        if (!*line)
            continue;
        struct change row = {{NULL}};
        if (!parse_row(line, &row)) {
            size_t line_number = c->n_folders + c->n + 1;
            changes_free(c);
            return must_print("%s: line %zu is not one of mvld's", path, line_number);
        }
        if (is_folder(&row))
            add_row(&c->folder, &c->n_folders, &row);
        else
            add_row(&c->row, &c->n, &row);
    }
    return NULL;
}

void changes_free(struct changes *c)
{
    free(c->row);
    free(c->folder);
    free(c->text);
    *c = (struct changes){0};
}

static int is_same(const struct change *a, const struct change *b, size_t fields)
{
    for (size_t i = 0; i < fields; i++)
        if (strcmp(a->field[i], b->field[i]))
            return 0;
    return 1;
}

static void print_row(FILE *to, const struct change *row)
{
    for (size_t i = 0; i < CHANGE_FIELDS; i++)
        fprintf(to, "%s%c", row->field[i], i + 1 < CHANGE_FIELDS ? '\t' : '\n');
}

static void print_rows(FILE *to, const struct change *rows, size_t n, const struct change *without,
                       const struct change *added)
{
    for (size_t i = 0; i < n; i++)
        if (!is_same(&rows[i], without, CHANGE_PATH + 1))
            print_row(to, &rows[i]);
    if (added)
        print_row(to, added);
}

/* Writes the rows except those of this kind and path, then `added`; those of folders before all others. */
static const char *write_rows(const char *path, const char *folder, const struct changes *c,
                              const struct change *without, const struct change *added)
{
    char *aside = must_print("%s.new", path); /* we hold the lock, so it is the rest of a killed
                                               * writer */
    const char *why = NULL;
    int fd = unlink(aside) && errno != ENOENT
                 ? -1 : open(aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    FILE *to = fd < 0 ? NULL : fdopen(fd, "w");

    if (to) {
        print_rows(to, c->folder, c->n_folders, without, added && is_folder(added) ? added : NULL);
        print_rows(to, c->row, c->n, without, added && !is_folder(added) ? added : NULL);
    }
    if (!to || fflush(to) || fsync(fd) || rename(aside, path))
        why = failed(aside, "cannot be written");
    if (to)
        fclose(to);
    if (why)
        unlink(aside);
    int folder_fd = why ? -1 : open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder_fd >= 0) {
        fsync(folder_fd);
        close(folder_fd);
    }
    free(aside);
    return why;
}

static char *folder_of(const char *path)
{
    return must_print("%.*s", (int)(strrchr(path, '/') - path), path);
}

/* The folder may be removed while its lock is waited for: 1 if it still has that name. */
static int is_there(int fd, const char *folder)
{
    struct stat mine, now;
    return !fstat(fd, &mine) && !stat(folder, &now) && mine.st_dev == now.st_dev && mine.st_ino == now.st_ino;
}

/* What the tool executes inherits the lock: if the tool is killed, the next one waits until all of it has ended. */
static int lock_folder(const char *folder, const char *subcommand)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY), failed = fd < 0 || flock(fd, LOCK_EX | LOCK_NB);
    if (fd >= 0 && failed && errno == EWOULDBLOCK) {
        complain(subcommand, "another mvld changes programs now: waiting for it");
        while ((failed = flock(fd, LOCK_EX)) && errno == EINTR)
            ;
    }
    if (fd >= 0 && failed) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Everybody may read the record, but not open its folder: whoever can, can hold the lock. */
static int close_folder(const char *folder)
{
    return geteuid() || strcmp(folder, SYSTEM_FOLDER) ? 0 : chmod(folder, 0711);
}

static const char *change_rows(const char *path, const struct change *without, const struct change *added)
{
    char *folder = folder_of(path);
    struct changes c;
    const char *why = changes_read(path, &c);

    if (!why)
        why = write_rows(path, folder, &c, without, added);
    changes_free(&c);
    free(folder);
    return why;
}

static struct change folder_row(const char *path)
{
    return (struct change){{"folder", path, "-", "-"}};
}

/* How many folders above the record's own are missing. */
static int missing_above(const char *folder)
{
    char *above = must_print("%s", folder);
    int n = 0;
    for (char *slash; (slash = strrchr(above, '/')) && slash != above; n++) {
        *slash = 0;
        if (!access(above, F_OK))
            break;
    }
    free(above);
    return n;
}

/* Adds rows of the n folders above the record's own, which were made for it.  NULL, or the error, and they are gone. */
static const char *note_above(const char *path, int n)
{
    const char *why = NULL;
    for (int i = n; i > 0 && !why; i--) {
        char *folder = folder_of(path);
        for (int up = 0; up < i; up++)
            *strrchr(folder, '/') = 0;
        const struct change row = folder_row(folder);
        why = changes_add(path, &row);
        free(folder);
    }
    if (why) {
        unlink(path);
        made_remove_folders(path, n + 1);
    }
    return why;
}

int changes_lock(const char *path, const char *subcommand, int make, const char **why)
{
    char *folder = path ? folder_of(path) : NULL;
    int fd = -1, missing = folder && make ? missing_above(folder) : 0;

    *why = folder ? NULL : "there is no folder for the record of changes: neither HOME nor XDG_STATE_HOME";
    while (folder) {
        fd = make && (make_folders(folder) || close_folder(folder)) ? -1 : lock_folder(folder, subcommand);
        if (fd < 0 || is_there(fd, folder))
            break;
        close(fd);
    }
    if (folder && fd < 0 && (make || errno != ENOENT))
        *why = failed(folder, "the record of changes cannot be kept there");
    if (fd >= 0 && !*why && (*why = note_above(path, missing))) {
        close(fd);
        fd = -1;
    }
    free(folder);
    return fd;
}

const char *change_program(const struct change *c)
{
    return c->field[strcmp(c->field[CHANGE_KIND], "interp") ? CHANGE_FOR : CHANGE_PATH];
}

const struct change *changes_next(const struct changes *rows, const struct change *last, const char *program)
{
    for (const struct change *c = last ? last + 1 : rows->row; c && c < rows->row + rows->n; c++)
        if (!strcmp(change_program(c), program))
            return c;
    return NULL;
}

int changes_have(const char *program)
{
    char *record = changes_path();
    struct changes rows = {0};
    int found = record && !changes_read(record, &rows) && changes_next(&rows, NULL, program);

    changes_free(&rows);
    free(record);
    return found;
}

const char *changes_add(const char *path, const struct change *row)
{
    for (size_t i = 0; i < CHANGE_FIELDS; i++)
        if (strpbrk(row->field[i], "\t\n"))
            return "a path with a tab or a newline cannot be recorded";
    return change_rows(path, row, row);
}

/* The newest row: 1 if it was cut off, which a full disk allows. */
static int cut_newest(const char *path, const struct change *row)
{
    struct changes c = {0};
    const struct change *newest = changes_read(path, &c) || !c.n ? NULL : &c.row[c.n - 1];
    int fd = newest && is_same(newest, row, CHANGE_PATH + 1) ? open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    int is_cut = fd >= 0 && !ftruncate(fd, newest->field[0] - c.text) && !fsync(fd);

    if (fd >= 0)
        close(fd);
    changes_free(&c);
    return is_cut;
}

const char *changes_remove(const char *path, const struct change *row)
{
    const char *why = access(path, F_OK) ? NULL : change_rows(path, row, NULL);
    return why && cut_newest(path, row) ? NULL : why; /* changes are reverted from the newest on */
}

const char *changes_make_folders(const char *path, const char *folder)
{
    char *made = must_print("%s/", folder);
    const char *why = NULL;
    for (char *slash = made; !why && (slash = strchr(slash + 1, '/')); *slash = '/') {
        *slash = 0;
        if (!access(made, F_OK))
            continue;
        const struct change row = folder_row(made);
        why = changes_add(path, &row);
        if (!why && mkdir(made, 0755) && errno != EEXIST) {
            why = failed(made, "cannot be made");
            changes_remove(path, &row);
        }
    }
    free(made);
    return why;
}

void changes_remove_folders(const char *path)
{
    struct changes c = {0};
    if (!changes_read(path, &c))
        for (size_t i = c.n_folders; i-- > 0;)
            if (!rmdir(c.folder[i].field[CHANGE_PATH]) || errno == ENOENT)
                changes_remove(path, &c.folder[i]);
    changes_free(&c);
}

void changes_end(const char *path)
{
    char *aside = must_print("%s.new", path);
    struct changes c = {0};
    const char *why = changes_read(path, &c);
    unlink(path);
    unlink(aside);
    made_remove_folders(path, 1);
    for (size_t i = why ? 0 : c.n_folders; i-- > 0;)
        rmdir(c.folder[i].field[CHANGE_PATH]);
    changes_free(&c);
    free(aside);
}
