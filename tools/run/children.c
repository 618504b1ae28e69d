/* SPDX-License-Identifier: MIT
 *
 * children.c: see children.h.
 *
 * A tmpfs is mounted over the folder of the machine's loader.  It has the folder's entries, except
 * that our loader has the name of the machine's, and beside it is a link to the machine's under the
 * name that ours tries first.  Links stay links; other entries are links into .original, where the
 * folder itself is mounted.
 *
 * A user who may not mount gets a user namespace as well, in which only this user and group have a
 * number.
 */
#include "tools/run/children.h"
#include "tools/common/tools.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ORIGINAL ".original"

static const char *failed(const char *what)
{
    return must_print("%s: %s", what, strerror(errno));
}

static int write_file(const char *name, const char *text)
{
    int fd = open(name, O_WRONLY | O_CLOEXEC);
    int wrong = fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return wrong;
}

static const char *make_namespaces(void)
{
    char *user = must_print("%u %u 1", (unsigned)geteuid(), (unsigned)geteuid());
    char *group = must_print("%u %u 1", (unsigned)getegid(), (unsigned)getegid());

    if (unshare(CLONE_NEWNS)) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
            return failed("no namespaces");
        if (write_file("/proc/self/setgroups", "deny") || write_file("/proc/self/uid_map", user) ||
            write_file("/proc/self/gid_map", group))
            return failed("no user namespace");
    }
    free(user);
    free(group);
    /* Later mounts outside become visible inside; ours never outside. */
    return mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL) ? failed("mounts stay shared") : NULL;
}

static int copy_file(const char *from, const char *to)
{
    struct stat st;
    int source = open(from, O_RDONLY | O_CLOEXEC);
    int target = source < 0 ? -1 : open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    int wrong = target < 0 || fstat(source, &st);

    for (off_t left = wrong ? 0 : st.st_size; left > 0 && !wrong;) {
        ssize_t n = sendfile(target, source, NULL, (size_t)left);
        wrong = n <= 0;
        left -= n;
    }
    wrong = wrong || fchmod(target, 0755);
    if (target >= 0)
        close(target);
    if (source >= 0)
        close(source);
    return wrong;
}

/* Makes a link to the folder's entry, here under `name`. */
static int link_entry(int original, const char *entry, const char *name)
{
    char to[4096];
    ssize_t n = readlinkat(original, entry, to, sizeof to - 1);

    if (n < 0)
        n = snprintf(to, sizeof to, ORIGINAL "/%s", entry);
    to[n] = 0;
    return symlink(to, name);
}

/* Fills the empty folder, which is the current one. */
static const char *fill(int original, const char *loader, const char *name, const char *host)
{
    char *source = must_print("/proc/self/fd/%d", original);
    int fd = openat(original, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    int wrong = !folder || mkdir(ORIGINAL, 0755) || mount(source, ORIGINAL, NULL, MS_BIND, NULL);

    for (struct dirent *e; !wrong && (e = readdir(folder));)
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && strcmp(e->d_name, name) && strcmp(e->d_name, host))
            wrong = link_entry(original, e->d_name, e->d_name);
    /* A diverted loader is the machine's; otherwise the one that ours replaces. */
    if (!wrong)
        wrong = link_entry(original, faccessat(original, host, F_OK, 0) ? name : host, host) || copy_file(loader, name);
    const char *why = wrong ? failed("the loader's folder cannot be filled") : NULL;
    if (folder)
        closedir(folder);
    free(source);
    return why;
}

/* The machine's, also within a program of an earlier `--children'. */
static int open_folder(const char *name)
{
    char *within = must_print("%s/" ORIGINAL, name);
    int fd = open(within, O_PATH | O_DIRECTORY | O_CLOEXEC);

    free(within);
    return fd < 0 ? open(name, O_PATH | O_DIRECTORY | O_CLOEXEC) : fd;
}

static const char *enter(const char *loader)
{
    char *name = must_print("%s", MVLD_HOST_LOADER), *slash = strrchr(name, '/');
    char *host = must_print("%s", strrchr(MVLD_HOST_LOADER_DIVERTED, '/') + 1);
    const char *why = make_namespaces();
    /* Opened here, since a folder that was opened outside stays one of the namespace outside. */
    int here = open(".", O_PATH | O_CLOEXEC), original;

    *slash = 0;
    original = open_folder(name);
    if (!why && (original < 0 || mount("mvld", name, "tmpfs", MS_NODEV, "mode=755") || chdir(name)))
        why = failed(name);
    if (!why)
        why = fill(original, loader, slash + 1, host);
    /* Files written there would be lost. */
    if (!why && mount(NULL, ".", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NODEV, NULL))
        why = failed(name);
    if (here < 0 || fchdir(here))
        why = why ? why : failed("the folder from which it was started");
    close(here);
    close(original);
    free(host);
    free(name);
    return why;
}

/* A half-made namespace cannot be undone: so a child of ours tries it first. */
const char *children_enter(const char *loader)
{
    static char why[256];
    char *absolute = realpath(loader, NULL);
    int answer[2], status;

    if (!absolute || pipe2(answer, O_CLOEXEC))
        return strerror(errno);
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        const char *wrong = enter(absolute);
        if (wrong && write(answer[1], wrong, strlen(wrong)) < 0)
            _exit(2);
        _exit(wrong != NULL);
    }
    close(answer[1]);
    ssize_t n = pid < 0 ? -1 : read(answer[0], why, sizeof why - 1);
    close(answer[0]);
    if (pid < 0 || waitpid(pid, &status, 0) != pid || n < 0)
        return "no process can try it";
    why[n] = 0;
    return status ? why : enter(absolute);
}
