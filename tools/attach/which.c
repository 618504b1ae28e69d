/* SPDX-License-Identifier: MIT
 *
 * which.c: see which.h.
 *
 * A child of the command, in a session of its own, reaches the processes.  Whoever kills or stops the command, or its
 * process group, finds no thread stopped that only the command could let go: the child finishes the process that it is at,
 * and then ends, too.
 */
#include "tools/attach/which.h"
#include "tools/common/tools.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
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

static int visit_all(const struct processes *list, int (*visit)(pid_t, const void *, struct json *), const void *cookie,
                     int json)
{
    struct json j = {.to = stdout};
    int status = TOOL_OK;
    sigset_t all, before;

    sigfillset(&all);
    if (json)
        json_begin(&j, NULL, '[');
    for (size_t i = 0; i < list->n; i++) {
        sigprocmask(SIG_BLOCK, &all, &before);
        status |= visit(list->pid[i], cookie, json ? &j : NULL);
        sigprocmask(SIG_SETMASK, &before, NULL);
    }
    if (json)
        json_end(&j, ']');
    return status;
}

int processes_visit(const struct processes *list, int (*visit)(pid_t, const void *, struct json *), const void *cookie,
                    int json)
{
    pid_t parent = getpid(), child;
    int status;

    fflush(stdout);
    signal(SIGCHLD, SIG_DFL); /* whoever started the command may have ignored it */
    child = fork();
    if (child < 0)
        return visit_all(list, visit, cookie, json);
    if (!child) {
        setsid();
        signal(SIGTERM, SIG_DFL); /* and this */
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        exit(getppid() == parent ? visit_all(list, visit, cookie, json) : TOOL_FAILED);
    }
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return TOOL_FAILED;
    if (WIFSIGNALED(status)) /* the command ends like it */
        kill(getpid(), WTERMSIG(status));
    return WIFEXITED(status) ? WEXITSTATUS(status) : TOOL_FAILED;
}
