/* SPDX-License-Identifier: MIT
 *
 * which.c: see which.h.
 */
#include "tools/attach/which.h"
#include "tools/common/tools.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

static void add(struct processes *list, pid_t pid)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->pid[i] == pid)
            return;
    list->pid = must_grow(list->pid, list->n + 1, sizeof *list->pid);
    list->pid[list->n++] = pid;
}

int processes_add(struct processes *list, const char *subcommand, const char *number)
{
    char *end;
    long pid = strtol(number, &end, 10);

    if (*end || pid <= 0 || pid != (pid_t)pid) {
        complain(subcommand, "no process has the number %s; see mvld %s --help", number, subcommand);
        return -1;
    }
    add(list, (pid_t)pid);
    return 0;
}

size_t processes_all(struct processes *list, int (*is_wanted)(int, const char *, const void *), const void *cookie)
{
    DIR *folder = opendir("/proc");
    size_t n = 0;

    for (struct dirent *e; folder && (e = readdir(folder));) {
        pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);

        if (pid > 0 && pid != getpid() && is_wanted(dirfd(folder), e->d_name, cookie)) {
            add(list, pid);
            n++;
        }
    }
    if (folder)
        closedir(folder);
    return n;
}

int processes_visit(const struct processes *list, int (*visit)(pid_t, const void *, struct json *), const void *cookie,
                    int json)
{
    struct json j = {.to = stdout};
    int status = TOOL_OK;

    if (json)
        json_begin(&j, NULL, '[');
    for (size_t i = 0; i < list->n; i++)
        status |= visit(list->pid[i], cookie, json ? &j : NULL);
    if (json)
        json_end(&j, ']');
    return status;
}
