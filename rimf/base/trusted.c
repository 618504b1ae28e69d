/* SPDX-License-Identifier: MIT
 *
 * rimf/base/trusted.c: checks each component of a path; trusted.h has the rules.
 */
#include "rimf/base/trusted.h"

#include "rimf/base/base.h"
#include "rimf/base/sys.h"

#include <errno.h> /* numbers only */
#include <fcntl.h> /* numbers only */

#define TEXT_SIZE 1536u
#define LINKS 16

/* Nobody but root and the user can change the checked part of the path.  So it is named again for
 * each further component, and no descriptor stays open. */
struct walk {
    const struct rimf_sys *sys;
    uint32_t user;
    struct stat at; /* the present folder; for the root, which is in no folder, its mode is 0 */
    const char *why;
    size_t gone, rest; /* text[0, gone) is checked, NUL-terminated; text[rest] to the end is still
                        * to check */
    int links;
    char text[TEXT_SIZE];
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

/* `st` is in the folder w->at. */
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

static int look(struct walk *w, struct stat *st)
{
    long error = SYS6(w->sys, SYS_newfstatat, AT_FDCWD, w->text, st, AT_SYMLINK_NOFOLLOW, 0, 0);

    if (error == -ENOENT && others_may_write(w, &w->at))
        return refuse(w, -EPERM, "there is none, and others may make it");
    if (error)
        return refuse(w, (int)error, error == -ENOENT ? "there is none" : "it cannot be looked at");
    return check_owner(w, st);
}

/* The checked part is a link in the folder text[0, folder): its target is put before the rest. */
static int follow(struct walk *w, size_t folder)
{
    char *target = w->text + w->gone + 1;
    size_t room = w->rest - w->gone - 2;
    long n = SYS6(w->sys, SYS_readlinkat, AT_FDCWD, w->text, target, room, 0, 0);

    if (n <= 0 || (size_t)n >= room)
        return refuse(w, n < 0 ? (int)n : -ENAMETOOLONG, "where the link leads cannot be read");
    if (++w->links > LINKS)
        return refuse(w, -ELOOP, "too many links lead on");
    if (*target == '/') {
        w->at.st_mode = 0;
        folder = 0;
    }
    w->rest -= (size_t)n;
    memmove(w->text + w->rest, target, (size_t)n);
    w->gone = folder;
    return 0;
}

/* The length of the next component; 0 if there is none. */
static size_t name_length(struct walk *w)
{
    size_t n = 0;

    while (w->text[w->rest] == '/')
        w->rest++;
    while (w->text[w->rest + n] && w->text[w->rest + n] != '/')
        n++;
    return n;
}

/* Checks the component of `n` bytes.  There is always space between the two parts: the second
 * shrinks as the first grows, or a link's target replaces its name. */
static int step(struct walk *w, size_t n)
{
    size_t folder = w->gone;
    struct stat st;
    int error;

    w->text[folder] = '/';
    memmove(w->text + folder + 1, w->text + w->rest, n);
    w->gone += 1 + n;
    w->rest += n;
    w->text[w->gone] = '\0';
    error = look(w, &st);
    if (error)
        return error;
    if (S_ISLNK(st.st_mode))
        return follow(w, folder);
    w->at = st;
    return 0;
}

/* *length: how many bytes of `path` were checked, including the component that failed. */
static int go(struct walk *w, const char *path, size_t *length)
{
    size_t whole = rimf_strlen(path), left = whole, n;
    int error = 0;

    if (whole >= TEXT_SIZE - 4)
        return refuse(w, -ENAMETOOLONG, "it is too long");
    w->rest = TEXT_SIZE - 1 - whole;
    memcpy(w->text + w->rest, path, whole + 1);
    while (!error && (n = name_length(w))) {
        error = step(w, n);
        if (left > TEXT_SIZE - 1 - w->rest) /* otherwise a link's target precedes it */
            left = TEXT_SIZE - 1 - w->rest;
    }
    *length = whole - left;
    return error;
}

int trusted_path(const struct rimf_sys *sys, const char *path, uint32_t user, struct stat *st,
                 const char **why, size_t *length)
{
    struct walk w;
    size_t gone = 0;
    int error = -EINVAL;

    w.sys = sys;
    w.user = user;
    w.why = "it is no absolute path";
    w.gone = 0;
    w.links = 0;
    w.at.st_mode = 0;
    if (*path == '/' && path[1])
        error = go(&w, path, &gone);

    if (!error && others_may_write(&w, &w.at))
        error = refuse(&w, -EPERM, "others may put files into it");
    if (!error)
        *st = w.at;
    if (why)
        *why = w.why;
    if (length)
        *length = gone;
    return error;
}
