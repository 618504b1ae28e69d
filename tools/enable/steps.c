/* SPDX-License-Identifier: MIT
 *
 * enable/steps.c: single steps of switching a program on and off.
 */
#include "tools/common/tools.h"
#include "tools/config/make.h"
#include "tools/enable/enable.h"
#include "tools/interp/interp.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

const char *enable_make_file(const char *path, const char *program, const char *text)
{
    char *record = changes_path("");
    char *sum = must_print("%016" PRIx64, bytes_sum((const unsigned char *)text, strlen(text)));
    const struct change row = {{"file", path, sum, program}};
    const char *why = record ? changes_add(record, &row) : "there is no folder for the record of changes";
    int fd = why ? -1 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

    if (!why && (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) || fsync(fd)))
        why = must_print("%s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    if (why && record && fd >= 0)
        unlink(path);
    if (why && record)
        changes_remove(record, &row);
    free(sum);
    free(record);
    return why;
}

int enable_concerns(const struct change *c, const char *program)
{
    return !strcmp(c->field[strcmp(c->field[CHANGE_KIND], "file") ? CHANGE_PATH : CHANGE_BEFORE], program);
}

int enable_run(const char *const *words)
{
    char *self = realpath("/proc/self/exe", NULL);
    const char *argv[16] = {self};
    int status = -1;
    pid_t pid;

    for (size_t i = 0; words[i]; i++)
        argv[i + 1] = words[i];
    fflush(stdout);
    if (!self || posix_spawn(&pid, self, NULL, NULL, (char **)argv, environ))
        pid = -1;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    free(self);
    return WIFEXITED(status) ? WEXITSTATUS(status) : TOOL_FAILED;
}

char *enable_config_folder(void)
{
    struct config_made made;
    config_make(&made, geteuid() != 0);
    char *folder = made.folder ? must_print("%s", made.folder) : NULL;
    config_made_free(&made);
    return folder;
}

int enable_make_config(void)
{
    return enable_run((const char *const[]){"config", geteuid() ? "--user" : NULL, NULL});
}
