/* SPDX-License-Identifier: MIT
 *
 * loader/config/files.c: reads the configuration, in this order:
 *
 *     /etc/mvld/config.cache              made by `mvld config`
 *     $XDG_CONFIG_HOME/mvld/config.cache  else $HOME/.config/mvld; by `mvld config --user`
 *     $MVLD_CONFIG                        a file as people write it
 *
 * This runs in every process, and most have no configuration: for these it makes no system call
 * that the host loader does not make, because a sandbox may kill for others.  Whether a file is
 * trusted is checked once something in it concerns this program, and under AT_SECURE before it is
 * read.  If something else is in a file's place (a FIFO, a device, 100 MB), there is an error
 * sentence, and no waiting.
 */
#include "rimf/base/base.h"

#include "loader/config/config.h"
#include "rimf/base/log.h"
#include "rimf/base/trusted.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define FILE_MAX CONFIG_FILE_MAX
#define SMALL 2048UL /* read onto the stack: enough for most machines' lists and most files */
#define USER_PATH_SIZE 1024UL /* small: each exec pays for new stack pages */

struct reader {
    const struct pipeline_query *query;
    struct rimf_heap *heap;
    struct config *config;
    const struct why *why;
};

struct file {
    const char *path;
    int fd;
    int users; /* found by the environment's variables of the user's folders */
    int named; /* by MVLD_CONFIG */
};

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
        return "lies in no folder";
    case -EISDIR:
        return "is a folder";
    default:
        return "cannot be read";
    }
}

/* The user can correct this name. */
static int is_wrong_name(long error)
{
    return error == -ENOENT || error == -ENOTDIR || error == -ELOOP || error == -EISDIR;
}

static int unreadable(const struct reader *r, const char *path, long error)
{
    return refuse_at(r->why, is_wrong_name(error) ? (int)-error : BY_KERNEL, path, 0,
                     "the file %s (error %ld)", error_words(error), -error);
}

/* ---- the environment -------------------------------------------------------------------- */

/* The XDG rules: a path that is not absolute counts as unset. */
static const char *absolute(const char *value)
{
    return value && value[0] == '/' ? value : NULL;
}

void config_environment(const struct pipeline_query *query, struct config_environment *out)
{
    static const struct {
        const char *name;
        size_t offset;
    } known[] = {
        {"HOME=", offsetof(struct config_environment, home)},
        {"XDG_CONFIG_HOME=", offsetof(struct config_environment, xdg_config_home)},
        {"MVLD_CONFIG=", offsetof(struct config_environment, config)},
        {"MVLD_TUNABLES=", offsetof(struct config_environment, tunables)},
        {"MVLD_PASS_PATH=", offsetof(struct config_environment, pass_path)},
    };

    *out = (struct config_environment){0};
    if (query->secure || !query->envp)
        return;
    for (char **e = query->envp; *e; e++) {
        if (**e != 'H' && **e != 'X' && **e != 'M')
            continue;
        for (size_t i = 0; i < RIMF_COUNT(known); i++) {
            const char *value = rimf_after(*e, known[i].name);
            const char **to = (const char **)((char *)out + known[i].offset);
            if (value && *value && !*to) /* like getenv: the first one wins */
                *to = value;
        }
    }
    out->home = absolute(out->home);
    out->xdg_config_home = absolute(out->xdg_config_home);
}

size_t config_user_folder(char *to, size_t size, const struct config_environment *env,
                          const char *more)
{
    size_t n = env->xdg_config_home
                   ? rimf_format(to, size, "%s/mvld%s", env->xdg_config_home, more)
               : env->home ? rimf_format(to, size, "%s/.config/mvld%s", env->home, more)
                           : 0;

    return n < size ? n : 0;
}

/* ---- trusted files ----------------------------------------------------------- */

/* Whether the opened file is at the end of a path that only root and `user` can change. */
static int is_only_of(const struct reader *r, const struct file *f, const struct stat *st,
                      uint32_t user)
{
    struct stat there;
    const char *reason;
    size_t length;
    int error = trusted_path(r->query->sys, f->path, user, &there, &reason, &length);

    if (!error && (there.st_dev != st->st_dev || there.st_ino != st->st_ino)) {
        reason = "it is no longer the file that was opened";
        error = -EPERM;
    }
    return error ? refuse_at(r->why, EPERM, f->path, 0, "it counts for nothing, because of %.*s: %s",
                             (int)length, f->path, reason)
                 : 0;
}

static int everybody_writes(const struct reader *r, const char *path, const struct stat *st)
{
    return st->st_mode & 002 ? refuse_at(r->why, EPERM, path, 0, "everybody may write it") : 0;
}

/* A file of the system, for a process without more rights than its caller: the owner does not
 * matter (in a user namespace root cannot be distinguished from others). */
static int is_systems(const struct reader *r, const struct file *f, const struct stat *st)
{
    struct stat folder;
    int error = everybody_writes(r, f->path, st);

    if (error)
        return error;
    if (SYS6(r->query->sys, SYS_newfstatat, AT_FDCWD, MVLD_SYSCONF_DIR, &folder, 0, 0, 0))
        return refuse_at(r->why, BY_KERNEL, MVLD_SYSCONF_DIR, 0, "the folder cannot be looked at");
    return everybody_writes(r, MVLD_SYSCONF_DIR, &folder);
}

static int may_be_believed(const struct reader *r, const struct file *f)
{
    const struct rimf_sys *sys = r->query->sys;
    struct stat st;

    if (SYS3(sys, SYS_fstat, f->fd, &st, 0))
        return refuse_at(r->why, BY_KERNEL, f->path, 0, "the file cannot be looked at");
    if (!S_ISREG(st.st_mode))
        return refuse_at(r->why, EINVAL, f->path, 0, "this is no regular file");
    if (f->named)
        return 0;
    if (r->query->secure)
        return is_only_of(r, f, &st, 0);
    if (f->users)
        return is_only_of(r, f, &st, (uint32_t)SYS3(sys, SYS_geteuid, 0, 0, 0));
    return is_systems(r, f, &st);
}

/* ---- texts ------------------------------------------------------------------------ */

static int scan(const struct reader *r, const struct file *f, const struct config_text *text)
{
    return f->named ? config_scan(r->query, r->heap, text, r->config, r->why)
                    : config_scan_made(r->query, r->heap, text, r->config, r->why);
}

static int read_large(const struct reader *r, const struct file *f, const char *first)
{
    char *text = rimf_heap_alloc(r->heap, FILE_MAX + 1);
    long n;
    int error;

    if (!text)
        return refuse(r->why, ENOMEM, "there is no memory to read %s", f->path);
    memcpy(text, first, SMALL);
    n = sys_read_all(r->query->sys, f->fd, text + SMALL, FILE_MAX + 1 - SMALL);
    if (n < 0)
        error = unreadable(r, f->path, n);
    else if (SMALL + (size_t)n > FILE_MAX)
        error = refuse_at(r->why, EFBIG, f->path, 0, "the file is larger than 1 MiB");
    else
        error = scan(r, f, &(struct config_text){f->path, text, SMALL + (size_t)n});
    rimf_heap_release(r->heap, text);
    return error;
}

static __attribute__((noinline)) int read_text(const struct reader *r, const struct file *f)
{
    char text[SMALL];
    long n = sys_read_all(r->query->sys, f->fd, text, SMALL);

    if (n < 0)
        return unreadable(r, f->path, n);
    if (!f->named && !config_made_concerns(r->query, text, (size_t)n))
        return 0;
    if (n == (long)SMALL)
        return read_large(r, f, text);
    return scan(r, f, &(struct config_text){f->path, text, (size_t)n});
}

/* ---- files -------------------------------------------------------------------------- */

/* Ignores the file, as if it did not exist. */
static int leave(const struct reader *r, const struct config *before)
{
    rimf_log(r->query->log, MVLD_LOG_PASSES, "configuration: %s", r->why->text);
    r->why->text[0] = '\0';
    *r->config = *before;
    return 0;
}

static int read_open(const struct reader *r, const struct file *f)
{
    const struct config before = *r->config;
    int error = r->query->secure || f->named ? may_be_believed(r, f) : 0;

    if (!error)
        error = read_text(r, f);
    if (r->query->secure || f->named || error == -ENOMEM || error == -BY_KERNEL ||
        (!error && r->config->match == before.match))
        return error;
    int refused = may_be_believed(r, f); /* errors in it do not matter then */
    if (!refused)
        return error;
    return f->users ? leave(r, &before) : refused;
}

/* O_NONBLOCK: a FIFO without a writer must not stop the program.  In a user's folder, which may be
 * another's, a link to a device is not opened either. */
static int read_file(const struct reader *r, struct file *f)
{
    int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (f->users ? O_NOFOLLOW : 0);
    long fd = SYS6(r->query->sys, SYS_openat, AT_FDCWD, f->path, flags, 0, 0, 0);

    if (sys_failed(fd))
        return f->users || (fd == -ENOENT && !f->named) ? 0 : unreadable(r, f->path, fd);
    f->fd = (int)fd;
    int error = read_open(r, f);
    sys_close(r->query->sys, f->fd);
    return error;
}

/* A home may be /dev/null, /nonexistent, or another user's: then there is no configuration, and no
 * error. */
static int read_user(const struct reader *r, const struct config_environment *env)
{
    char path[USER_PATH_SIZE];

    if (!config_user_folder(path, sizeof(path), env, "/" CONFIG_MADE))
        return 0;
    return read_file(r, &(struct file){.path = path, .users = 1});
}

static int each_file(const struct pipeline_query *query, const struct config_environment *env,
                     struct rimf_heap *heap, struct config *config, const struct why *why)
{
    struct reader r = {query, heap, config, why};
    int error = read_file(&r, &(struct file){.path = MVLD_SYSCONF_DIR "/" CONFIG_MADE});

    if (error || query->secure)
        return error;
    error = read_user(&r, env);
    if (!error && env->config)
        error = read_file(&r, &(struct file){.path = env->config, .named = 1});
    return error;
}

int config_read(const struct pipeline_query *query, const struct config_environment *env,
                struct rimf_heap *heap, struct config *out, const struct why *why)
{
    int error;

    *out = (struct config){.file = CONFIG_TUNABLES};
    error = each_file(query, env, heap, out, why);
    if (!error && env->tunables)
        error = config_tunables(heap, env->tunables, out, why);
    if (error)
        return error;
    return out->match || config_find(out, "app", "passes");
}
