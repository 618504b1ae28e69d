/* SPDX-License-Identifier: MIT
 *
 * enable/steps.c: single steps of enabling and disabling a program.
 */
#include "tools/changes/made.h"
#include "tools/common/paths.h"
#include "tools/common/tools.h"
#include "tools/config/make.h"
#include "tools/enable/enable.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* The row of the file of that kind and path, or NULL. */
static const struct change *row_of(const struct changes *rows, const char *kind, const char *path)
{
    for (size_t i = 0; i < rows->n; i++)
        if (!strcmp(rows->row[i].field[CHANGE_KIND], kind) && !strcmp(rows->row[i].field[CHANGE_PATH], path))
            return &rows->row[i];
    return NULL;
}

/* Removes our own file there; a foreign one is an error. */
static const char *make_room(const char *record, const struct changes *rows, const struct change *row)
{
    const struct change *old = row_of(rows, row->field[CHANGE_KIND], row->field[CHANGE_PATH]);

    if (old && strcmp(change_program(old), change_program(row)))
        return must_print("it was made for %s", change_program(old));
    if (old && made_stands(row->field[CHANGE_PATH], old->field[CHANGE_SUM]) < 0)
        return "it was changed since mvld made it, and stays";
    if (old)
        return change_undo(record, old);
    return access(row->field[CHANGE_PATH], F_OK) ? NULL : "it is there, and mvld did not make it";
}

static const char *make_folder(const char *record, const char *path)
{
    char *folder = must_print("%.*s", (int)(strrchr(path, '/') - path), path);
    const char *why = changes_make_folders(record, folder);
    free(folder);
    return why;
}

const char *enable_make_file(const char *kind, const char *path, const char *program, const void *text, size_t size,
                             unsigned mode)
{
    char *record = changes_path(), *sum = made_sum(text, size);
    const struct change row = {{kind, path, sum, program}};
    struct changes rows = {0};
    const char *why = record ? changes_read(record, &rows) : "there is no folder for the record of changes";
    const struct change *old = why ? NULL : row_of(&rows, kind, path);

    if (!old || strcmp(old->field[CHANGE_SUM], sum) || strcmp(change_program(old), program) || !change_stands(old)) {
        why = why ? why : make_room(record, &rows, &row);
        if (!why && !(why = changes_add(record, &row))) {
            why = make_folder(record, path);
            why = why ? why : made_write(path, text, size, mode);
            if (why)
                change_undo(record, &row);
        }
    }
    changes_free(&rows);
    free(sum);
    free(record);
    return why;
}

static int steers(const char *setting)
{
    return (!strncmp(setting, "MVLD", 4) && strncmp(setting, "MVLD_STATE=", 11) && strncmp(setting, "MVLD_CACHE_SIZE=", 16)) ||
           !strncmp(setting, "LD_", 3) || !strncmp(setting, "GLIBC_TUNABLES=", 15);
}

static char **usual_environment(void)
{
    size_t n = 0, k = 0;
    while (environ[n])
        n++;
    char **list = must_alloc(n + 1, sizeof *list);
    for (size_t i = 0; i < n; i++)
        if (!steers(environ[i]))
            list[k++] = environ[i];
    return list;
}

/* Reads until the end; to be freed. */
static char *read_all(int fd)
{
    size_t n = 0;
    char *text = must_alloc(1, 1);
    for (ssize_t got = 1; got > 0 || (got < 0 && errno == EINTR);) {
        text = must_grow(text, n + 4097, 1);
        got = read(fd, text + n, 4096);
        n += got > 0 ? (size_t)got : 0;
    }
    text[n] = 0;
    return text;
}

/* If the tool is killed, its steps end, too. */
static _Noreturn void become(const struct way *way, const char *mvld, char *const *argv, char *const *environment,
                             int out)
{
    int to = out < 0 ? open("/dev/null", O_WRONLY | O_CLOEXEC) : out;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if ((to >= 0 && dup2(to, STDOUT_FILENO) < 0) || (out >= 0 && dup2(out, STDERR_FILENO) < 0))
        _exit(TOOL_FAILED);
    if (!way || !way->enter || !way->enter())
        execve(mvld, argv, environment);
    complain(argv[1], "%s", strerror(errno));
    _exit(TOOL_FAILED);
}

int enable_run(const struct way *way, const char *const *words, char **said)
{
    char *mvld = path_mvld(), **environment = usual_environment(); /* an upgrade may have replaced our own file */
    const char *argv[16] = {mvld};
    int status = -1, out[2] = {-1, -1};

    for (size_t i = 0; words[i]; i++)
        argv[i + 1] = words[i];
    fflush(stdout);
    pid_t pid = said && pipe2(out, O_CLOEXEC) ? -1 : fork();
    if (!pid)
        become(way, mvld, (char *const *)argv, environment, out[1]);
    if (pid < 0)
        complain(words[0], "%s", strerror(errno));
    if (said) {
        close(out[1]);
        *said = read_all(out[0]);
        close(out[0]);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    free(environment);
    free(mvld);
    return WIFEXITED(status) ? WEXITSTATUS(status) : TOOL_FAILED;
}

char *enable_config_folder(void)
{
    struct config_made made;
    config_make(&made, geteuid() != 0, NULL);
    char *folder = made.folder ? must_print("%s", made.folder) : NULL;
    config_made_free(&made);
    return folder;
}

static int is_file_of_another(const struct changes *rows, const char *path, const char *program)
{
    for (size_t i = 0; i < rows->n; i++)
        if (!strcmp(rows->row[i].field[CHANGE_PATH], path) && strcmp(change_program(&rows->row[i]), program))
            return 1;
    return 0;
}

char *enable_config_file(const struct changes *rows, const char *program)
{
    char *folder = enable_config_folder(), *path = NULL, number[16] = "";
    const struct change *c = NULL;
    while ((c = changes_next(rows, c, program)) && strcmp(c->field[CHANGE_KIND], "file"))
        ;
    if (!folder)
        complain("enable", "neither HOME nor XDG_CONFIG_HOME says where the configuration lies");
    else if (c)
        path = must_print("%s", c->field[CHANGE_PATH]);
    for (int n = 2; folder && !path; n++) {
        path = must_print("%s/apps.d/%s%s.conf", folder, strrchr(program, '/') + 1, number);
        if (is_file_of_another(rows, path, program)) {
            free(path);
            path = NULL;
        }
        snprintf(number, sizeof number, "-%d", n);
    }
    free(folder);
    return path;
}

/* Not written again if it is the same: mvld-renew.path would start its job again and again. */
int enable_make_config(void)
{
    struct config_made made;
    int wrong = config_make(&made, geteuid() != 0, NULL);
    char *differs = wrong ? NULL : config_made_differs(&made);
    int same = !wrong && !differs;

    free(differs);
    config_made_free(&made);
    return same ? TOOL_OK : enable_run(NULL, (const char *const[]){"config", geteuid() ? "--user" : NULL, NULL}, NULL);
}
