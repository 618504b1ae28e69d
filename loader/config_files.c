/* SPDX-License-Identifier: MIT
 *
 * loader/config_files.c: finds and reads the configuration files, in order:
 *
 *     /etc/mvld/mvld.conf
 *     /etc/mvld/apps.d/ *.conf            sorted by name, byte by byte
 *     $XDG_CONFIG_HOME/mvld/apps.d/ *.conf  else $HOME/.config/mvld/apps.d
 *     $MVLD_CONFIG
 *
 * This runs in every process, and most have no configuration: a missing folder
 * costs one failing openat, and no memory.  Whatever stands where
 * a file is expected (a FIFO, a device, a folder, 100 MB) ends in a sentence,
 * never in waiting.
 */
#include "base.h"
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define FILE_MAX (1024 * 1024UL)
#define SMALL 8192UL /* a block of such a file is kept where it was read to */
#define PATH_SIZE 4096UL
#define USER_FOLDER_SIZE 1024UL /* small: every exec pays for stack that is new to it */

enum trust {
    TRUST_ANY,    /* named by the environment of this very process */
    TRUST_SYSTEM, /* found: not everybody may write it */
    TRUST_OWNER,  /* found in a home: also, its owner must be us or root */
    TRUST_ROOT    /* AT_SECURE */
};

struct reader {
    const struct pipeline_query *query;
    struct arena *arena;
    struct config_block *winner;
    const struct why *why;
};

static long open_at(const struct reader *r, int folder, const char *name, int flags)
{
    return SYS6(r->query->sys, SYS_openat, folder, name, flags | O_CLOEXEC, 0, 0, 0);
}

static const char *error_words(long error)
{
    switch (error) {
    case -ENOENT:
        return "does not exist";
    case -EACCES:
    case -EPERM:
        return "may not be read";
    case -ELOOP:
        return "is a symbolic link to itself";
    case -ENOTDIR:
        return "is no folder";
    default:
        return "cannot be read";
    }
}

/* Who gave the name can correct it. */
static int is_wrong_name(long error)
{
    return error == -ENOENT || error == -ENOTDIR || error == -ELOOP;
}

/* Of a file, and of a folder: who may write that can put a file there. */
static int trusted(const struct reader *r, const char *path, const struct stat *st,
                   enum trust trust)
{
    if (trust == TRUST_ROOT && (st->st_uid != 0 || (st->st_mode & 022)))
        return refuse_at(r->why, EPERM, path, 0,
                         "a program with special rights (AT_SECURE) takes only files that root "
                         "owns and nobody else can write");
    if (trust != TRUST_ANY && (st->st_mode & 002))
        return refuse_at(r->why, EPERM, path, 0, "everybody may write it");
    if (trust == TRUST_OWNER && st->st_uid != 0) {
        long self = SYS3(r->query->sys, SYS_geteuid, 0, 0, 0);
        if (self != (long)st->st_uid)
            return refuse_at(r->why, EPERM, path, 0,
                             "it belongs to user %u, this process is of user %ld", st->st_uid,
                             self);
    }
    return 0;
}

/* As much as the file had when it was looked at; length, or negative errno. */
static long read_whole(const struct rimf_sys *sys, int fd, char *to, size_t size)
{
    size_t n = 0;

    while (n < size) {
        long got = sys_read(sys, fd, to + n, size - n);
        if (got == -EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? got : (long)n;
        n += (size_t)got;
    }
    return (long)n;
}

static int scan_from(const struct reader *r, const char *path, int fd, char *to, size_t size,
                     int lasting)
{
    long length = read_whole(r->query->sys, fd, to, size);

    if (length < 0)
        return refuse_at(r->why, BY_KERNEL, path, 0, "the file cannot be read (error %ld)",
                         -length);
    struct config_text text = {path, to, (size_t)length, lasting};
    return config_scan(r->query, r->arena, &text, r->winner, r->why);
}

static int scan_small(const struct reader *r, const char *path, int fd, size_t size)
{
    const struct config_block before = *r->winner;
    struct arena_mark mark = arena_mark(r->arena);
    char *text = arena_alloc(r->arena, size);
    int error = text ? scan_from(r, path, fd, text, size, 1)
                     : refuse(r->why, ENOMEM, "there is no memory to read %s", path);

    if (r->winner->text == before.text)
        arena_release(r->arena, mark);
    return error;
}

static int scan_large(const struct reader *r, const char *path, int fd, size_t size)
{
    struct arena pages = {.sys = r->query->sys};
    char *text = arena_alloc(&pages, size);
    int error = text ? scan_from(r, path, fd, text, size, 0)
                     : refuse(r->why, ENOMEM, "there is no memory to read %s", path);

    arena_free(&pages);
    return error;
}

/* `name` in `folder` is `path`. */
static int read_file(const struct reader *r, int folder, const char *name, const char *path,
                     enum trust trust, int may_be_absent)
{
    const struct rimf_sys *sys = r->query->sys;
    struct stat st;
    int error;

    /* O_NONBLOCK: a FIFO without a writer must not hold up the program. */
    long fd = open_at(r, folder, name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (fd == -ENOENT && may_be_absent)
        return 0;
    if (sys_failed(fd))
        return refuse_at(r->why, is_wrong_name(fd) ? (int)-fd : BY_KERNEL, path, 0,
                         "the file %s (error %ld)", error_words(fd), -fd);
    long failed = SYS3(sys, SYS_fstat, fd, &st, 0);
    if (failed)
        error = refuse_at(r->why, BY_KERNEL, path, 0, "the file cannot be looked at");
    else if (!S_ISREG(st.st_mode))
        error = refuse_at(r->why, EINVAL, path, 0, "this is no regular file");
    else if ((uint64_t)st.st_size > FILE_MAX)
        error = refuse_at(r->why, EFBIG, path, 0, "the file is larger than 1 MiB");
    else if (!(error = trusted(r, path, &st, trust)))
        error = ((uint64_t)st.st_size <= SMALL ? scan_small : scan_large)(
            r, path, (int)fd, (size_t)st.st_size);
    sys_close(sys, (int)fd);
    return error;
}

/* ---- folders ------------------------------------------------------------------ */

struct name {
    struct name *next;
    char *text;
};

static int before(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return (unsigned char)*a < (unsigned char)*b;
}

static struct name *merge(struct name *a, struct name *b)
{
    struct name *first = NULL, **tail = &first;

    while (a && b) {
        struct name **least = before(b->text, a->text) ? &b : &a;
        *tail = *least;
        *least = (*least)->next;
        tail = &(*tail)->next;
    }
    *tail = a ? a : b;
    return first;
}

/* Merge sort, bottom up: stack[i] holds a sorted list of 2^i names or nothing. */
static struct name *sort(struct name *list)
{
    struct name *stack[40] = {0}, *all = NULL;

    while (list) {
        struct name *run = list;
        size_t i = 0;
        list = list->next;
        run->next = NULL;
        for (; i < RIMF_COUNT(stack) - 1 && stack[i]; i++) {
            run = merge(stack[i], run);
            stack[i] = NULL;
        }
        stack[i] = merge(stack[i], run);
    }
    for (size_t i = 0; i < RIMF_COUNT(stack); i++)
        all = merge(stack[i], all);
    return all;
}

struct entry { /* as getdents64 gives it */
    uint64_t inode;
    int64_t offset;
    uint16_t size;
    uint8_t type;
    char name[];
};

static int is_conf(const char *name)
{
    size_t n = rimf_strlen(name);

    return name[0] != '.' && n > 5 && rimf_streq(name + n - 5, ".conf");
}

static int list_folder(const struct reader *r, int fd, const char *path, struct name **out)
{
    char buffer[1024] __attribute__((aligned(8)));

    for (;;) {
        long got = SYS3(r->query->sys, SYS_getdents64, fd, buffer, sizeof(buffer));
        if (got < 0 || got > (long)sizeof(buffer))
            return refuse_at(r->why, BY_KERNEL, path, 0, "the folder cannot be read (error %ld)", -got);
        if (got == 0)
            return 0;
        for (long at = 0; at + (long)offsetof(struct entry, name) < got;) {
            const struct entry *e = (const struct entry *)(buffer + at);
            if (e->size <= offsetof(struct entry, name) || at + e->size > got)
                break;
            at += e->size;
            if (!is_conf(e->name))
                continue;
            struct name *name = arena_alloc(r->arena, sizeof(*name));
            char *text = arena_copy(r->arena, e->name, rimf_strlen(e->name));
            if (!name || !text)
                return refuse(r->why, ENOMEM, "there is no memory for the names in %s", path);
            *name = (struct name){*out, text};
            *out = name;
        }
    }
}

static int folder_trusted(const struct reader *r, int fd, const char *path, enum trust trust)
{
    struct stat st;
    long failed = SYS3(r->query->sys, SYS_fstat, fd, &st, 0);

    if (failed)
        return refuse_at(r->why, BY_KERNEL, path, 0, "the folder cannot be looked at");
    return trusted(r, path, &st, trust);
}

static int read_in_folder(const struct reader *r, int fd, const char *path, const char *name,
                          enum trust trust)
{
    size_t size = rimf_strlen(path) + rimf_strlen(name) + 2;
    char *file = size < PATH_SIZE ? arena_alloc(r->arena, size) : NULL;

    if (!file)
        return refuse_at(r->why, ENAMETOOLONG, path, 0, "a name in it is too long");
    rimf_format(file, size, "%s/%s", path, name);
    return read_file(r, fd, name, file, trust, 1);
}

static int read_open_folder(const struct reader *r, int fd, const char *path, enum trust trust)
{
    struct name *names = NULL;
    int error = folder_trusted(r, fd, path, trust);

    if (!error)
        error = list_folder(r, fd, path, &names);
    for (names = sort(names); names && !error; names = names->next)
        error = read_in_folder(r, fd, path, names->text, trust);
    return error;
}

static int read_system(const struct reader *r)
{
    const char *path = MVLD_SYSCONF_DIR;
    enum trust trust = r->query->secure ? TRUST_ROOT : TRUST_SYSTEM;
    long folder = open_at(r, AT_FDCWD, path, O_PATH | O_DIRECTORY), apps;
    int error;

    if (folder == -ENOENT)
        return 0;
    if (sys_failed(folder))
        return refuse_at(r->why, is_wrong_name(folder) ? (int)-folder : BY_KERNEL, path, 0, "the folder %s (error %ld)",
                         error_words(folder), -folder);
    error = folder_trusted(r, (int)folder, path, trust);
    if (!error)
        error = read_file(r, (int)folder, "mvld.conf", MVLD_SYSCONF_DIR "/mvld.conf", trust, 1);
    if (!error) {
        apps = open_at(r, (int)folder, "apps.d", O_RDONLY | O_DIRECTORY);
        if (!sys_failed(apps)) {
            error = read_open_folder(r, (int)apps, MVLD_SYSCONF_DIR "/apps.d", trust);
            sys_close(r->query->sys, (int)apps);
        } else if (apps != -ENOENT) {
            error = refuse_at(r->why, is_wrong_name(apps) ? (int)-apps : BY_KERNEL,
                              MVLD_SYSCONF_DIR "/apps.d", 0,
                              "the folder %s (error %ld)", error_words(apps), -apps);
        }
    }
    sys_close(r->query->sys, (int)folder);
    return error;
}

/* 0: the folder is another user's, as under sudo with the HOME of before. */
static int is_own(const struct reader *r, int fd)
{
    struct stat st;

    if (SYS3(r->query->sys, SYS_fstat, fd, &st, 0))
        return 1; /* said when it is looked at again */
    return st.st_uid == 0 || (long)st.st_uid == SYS3(r->query->sys, SYS_geteuid, 0, 0, 0);
}

/* A home may be /dev/null, /nonexistent, or another user's: no configuration, and
 * nothing to complain about. */
static int read_user(const struct reader *r, const struct config_environment *env)
{
    char path[USER_FOLDER_SIZE];
    size_t length;

    if (env->xdg_config_home)
        length = rimf_format(path, sizeof(path), "%s/mvld/apps.d", env->xdg_config_home);
    else if (env->home)
        length = rimf_format(path, sizeof(path), "%s/.config/mvld/apps.d", env->home);
    else
        return 0;
    if (length >= sizeof(path))
        return 0;
    long fd = open_at(r, AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
    if (sys_failed(fd))
        return 0;
    int error = is_own(r, (int)fd) ? read_open_folder(r, (int)fd, path, TRUST_OWNER) : 0;
    sys_close(r->query->sys, (int)fd);
    return error;
}

int config_each_file(const struct pipeline_query *query, const struct config_environment *env,
                     struct arena *arena, struct config_block *winner, const struct why *why)
{
    struct reader r = {query, arena, winner, why};
    int error = read_system(&r);

    if (error || query->secure)
        return error;
    error = read_user(&r, env);
    if (!error && env->config)
        error = read_file(&r, AT_FDCWD, env->config, env->config, TRUST_ANY, 0);
    return error;
}
