/* SPDX-License-Identifier: MIT
 *
 * rimf/base/trusted.c: goes along a path; the rules are told in trusted.h.
 */
#include "rimf/base/trusted.h"

#include "rimf/base/base.h"
#include "rimf/base/sys.h"

#include <errno.h> /* numbers only */
#include <fcntl.h> /* numbers only */

#define NAME_SIZE 257u    /* of one component: one that is cut is still too long for the kernel */
#define TARGET_SIZE 1024u /* of a link: each level takes so much stack */
#define LEVELS 4          /* links of links */

struct walk {
    const struct rimf_sys *sys;
    uint32_t user;
    int fd;         /* of where we are, without the right to read or write */
    struct stat at; /* the same */
    const char *why;
};

static int refuse(struct walk *w, int error, const char *why)
{
    w->why = why;
    return error;
}

static int others_may_write(const struct walk *w, const struct stat *st)
{
    return st->st_mode & (w->user && st->st_gid == w->user ? 002 : 022);
}

/* `st` lies in w->at. */
static int check_owner(struct walk *w, const struct stat *st)
{
    int is_folder = S_ISDIR(st->st_mode);

    if (st->st_uid != 0 && st->st_uid != w->user)
        return refuse(w, -EPERM, "another user owns it");
    if (!is_folder && others_may_write(w, &w->at))
        return refuse(w, -EPERM, "others may put files into its folder");
    if (!S_ISLNK(st->st_mode) && others_may_write(w, st) && !(is_folder && st->st_mode & S_ISVTX))
        return refuse(w, -EPERM, "others may write it");
    return 0;
}

/* To `name` of the folder where we are.  1: it is a link, its text is in `target`, and we stay. */
static int step(struct walk *w, int from, const char *name, char *target)
{
    long fd = SYS6(w->sys, SYS_openat, from, name, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0, 0, 0), n = 0;
    struct stat st;
    int error;

    if (fd == -ENOENT && others_may_write(w, &w->at))
        return refuse(w, -EPERM, "there is none, and others may make it");
    if (sys_failed(fd))
        return refuse(w, (int)fd, fd == -ENOENT ? "there is none" : "it cannot be looked at");
    error = (int)SYS3(w->sys, SYS_fstat, fd, &st, 0);
    error = error ? refuse(w, error, "it cannot be looked at") : check_owner(w, &st);
    if (!error && S_ISLNK(st.st_mode)) {
        n = SYS6(w->sys, SYS_readlinkat, fd, "", target, TARGET_SIZE, 0, 0);
        if (n <= 0 || n >= (long)TARGET_SIZE)
            error = refuse(w, n < 0 ? (int)n : -ENAMETOOLONG, "where the link leads cannot be read");
    }
    if (error || n) {
        sys_close(w->sys, (int)fd);
        if (!error)
            target[n] = '\0';
        return error ? error : 1;
    }
    if (w->fd >= 0)
        sys_close(w->sys, w->fd);
    w->fd = (int)fd;
    w->at = st;
    return 0;
}

/* The next component of the path from `p` on; 1 when there is one that fits. */
static int take_name(const char **p, char *name)
{
    size_t n = 0;

    while (**p == '/')
        ++*p;
    for (; **p && **p != '/'; ++*p)
        if (n < NAME_SIZE - 1)
            name[n++] = **p;
    name[n] = '\0';
    return n > 0;
}

/* In *length: how many bytes of `path` were gone, with the component that did not do. */
static int go(struct walk *w, const char *path, int level, size_t *length)
{
    char name[NAME_SIZE], target[TARGET_SIZE];
    const char *p = path;
    size_t within;
    int error = 0;

    if (level == LEVELS)
        return refuse(w, -ELOOP, "too many links lead on");
    if (*p == '/') {
        w->at.st_mode = 0; /* the root lies in no folder */
        error = step(w, AT_FDCWD, "/", target);
        p++;
    }
    while (!error && take_name(&p, name)) {
        error = step(w, w->fd, name, target);
        if (error > 0)
            error = go(w, target, level + 1, &within);
    }
    *length = (size_t)(p - path);
    return error;
}

int trusted_path(const struct rimf_sys *sys, const char *path, uint32_t user, struct stat *st,
                 const char **why, size_t *length)
{
    struct walk w = {.sys = sys, .user = user, .fd = -1, .why = "it is no absolute path"};
    size_t gone = 0;
    int error = *path == '/' ? go(&w, path, 0, &gone) : -EINVAL;

    if (!error && others_may_write(&w, &w.at))
        error = refuse(&w, -EPERM, "others may put files into it");
    if (w.fd >= 0)
        sys_close(sys, w.fd);
    if (!error)
        *st = w.at;
    if (why)
        *why = w.why;
    if (length)
        *length = gone;
    return error;
}
