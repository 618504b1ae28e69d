/* SPDX-License-Identifier: MIT
 *
 * loader/manager/find.c: finds passes and their libraries, and their order.
 *
 * A pass is <folder>/<name>.so, first in the folders of MVLD_PASS_PATH, then in the compiled-in one.  Its
 * library is beside the pass, in the folders of MVLD_PASS_PATH, or in the libdir.  A library linked with
 * glibc cannot be loaded into a program of musl: such a program gets the library of that name from the
 * folder musl/ in each of these (mvld/musl/ in the libdir), or none.
 */
#include "rimf/base/base.h"
#include "rimf/base/cache.h"
#include "loader/manager/private.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define PATH_SIZE 4096u

/* Our own copy of FOLDER/NAMEEND, or NULL: too long, or no memory. */
static char *join(struct pipeline *p, const char *folder, size_t length, const char *name,
                  const char *end)
{
    size_t size = length + rimf_strlen(name) + rimf_strlen(end) + 2;
    char *path = size <= PATH_SIZE ? rimf_heap_alloc(&p->heap, size) : NULL;

    if (path) {
        memcpy(path, folder, length);
        rimf_format(path + length, size - length, "/%s%s", name, end);
    }
    return path;
}

/* AT_SECURE: nobody but root may control it. */
static int root_owns(const struct pipeline *p, long fd)
{
    struct stat st;

    return !SYS3(p->sys, SYS_fstat, fd, &st, 0) && st.st_uid == 0 && !(st.st_mode & 022);
}

static long open_file(const struct pipeline *p, const char *path, int flags)
{
    return sys_openat(p->sys, path, flags | O_CLOEXEC, 0);
}

/* Whoever may write to the folder can replace the pass by another file of root's. */
static int root_owns_folder(struct pipeline *p, const char *path)
{
    char *folder = rimf_heap_copy_part(&p->heap, path, (size_t)(rimf_strrchr(path, '/') - path));
    long fd = folder ? open_file(p, folder, O_PATH | O_DIRECTORY) : -ENOMEM;
    int good = !sys_failed(fd) && root_owns(p, fd);

    rimf_heap_release(&p->heap, folder);
    if (!sys_failed(fd))
        sys_close(p->sys, (int)fd);
    return good;
}

int pipeline_map_pass(struct pipeline *p, struct planned_pass *it, const struct why *why)
{
    long fd = open_file(p, it->path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    int error = 0;

    if (sys_failed(fd))
        return refuse_at(why, BY_KERNEL, it->path, 0, "the pass cannot be opened (error %ld)",
                         -fd);
    if (p->secure && !(root_owns(p, fd) && root_owns_folder(p, it->path)))
        error = refuse_at(why, EPERM, it->path, 0,
                          "a program with special rights (AT_SECURE) takes only passes that root "
                          "owns and nobody else can write, in a folder of that kind");
    if (!error)
        error = pass_map(p->sys, (int)fd, it->path, it->name, &it->object, why);
    sys_close(p->sys, (int)fd);
    if (!error && p->late == KNOWN && !file_id_same(&it->identity, &it->object.identity)) {
        pass_unmap(p->sys, &it->object);
        error = refuse_at(why, ESTALE, it->path, 0, "the pass is not the one of the start");
    }
    if (error)
        return error;
    it->pass = it->object.pass;
    it->flags = it->pass->flags;
    it->identity = it->object.identity;
    rimf_log(&p->log, MVLD_LOG_FILES, "pass %s: %s at 0x%lx; in gdb: add-symbol-file %s -o 0x%lx",
             it->name, it->path, it->object.base, it->path, it->object.base);
    return 0;
}

/* 1: there is such a file in the folder.  0: there is none, or its path would be too long.  What else may be wrong
 * with it is said by who maps it. */
static int look_in(struct pipeline *p, const char *folder, size_t length, const char *name,
                   struct planned_pass *out, const struct why *why)
{
    char *path = join(p, folder, length, name, ".so");
    struct stat st;
    long error;

    if (folder[0] != '/')
        return refuse_at(why, EINVAL, "MVLD_PASS_PATH", 0, "'%s' is no absolute path",
                         path ? (path[length] = 0, path) : "");
    error = path ? SYS6(p->sys, SYS_newfstatat, AT_FDCWD, path, &st, 0, 0, 0) : -ENOENT;
    if (error == -ENOENT || error == -ENOTDIR) {
        rimf_heap_release(&p->heap, path);
        return 0;
    }
    *out = (struct planned_pass){.name = name, .path = path};
    if (!error)
        file_id_of(&out->identity, &st);
    return 1;
}

/* Takes the first folder off a list, which may be NULL; NULL: there is none. */
static const char *next_folder(const char **list, size_t *length)
{
    while (*list && **list) {
        const char *folder = *list, *end = folder;

        while (*end && *end != ':')
            end++;
        *length = (size_t)(end - folder);
        *list = *end ? end + 1 : end;
        if (*length)
            return folder;
    }
    return NULL;
}

int pipeline_find_pass(struct pipeline *p, const char *name, struct planned_pass *out,
                       const struct why *why)
{
    const char *list = p->pass_path, *folder;
    size_t length;
    int found = 0;

    while (!found && (folder = next_folder(&list, &length)))
        found = look_in(p, folder, length, name, out, why);
    if (!found)
        found = look_in(p, MVLD_PASS_DIR, sizeof(MVLD_PASS_DIR) - 1, name, out, why);
    if (found)
        return found < 0 ? found : 0;
    return refuse_at(why, ENOENT, p->order->file, p->order->line,
                     "there is no pass '%s': no %s.so in %s%s" MVLD_PASS_DIR, name, name,
                     p->pass_path ? p->pass_path : "", p->pass_path ? " or " : "");
}

int pipeline_is_there(const struct pipeline *p, const char *path)
{
    if (!p->secure)
        return !SYS6(p->sys, SYS_faccessat, AT_FDCWD, path, 4 /* R_OK */, 0, 0, 0);
    long fd = open_file(p, path, O_PATH);
    int good = !sys_failed(fd) && root_owns(p, fd);
    if (!sys_failed(fd))
        sys_close(p->sys, (int)fd);
    return good;
}

/* Looks for `name` in a folder: *out is a copy of the path if the file exists. */
static int library_in(struct pipeline *p, const char *folder, size_t length, const char *name,
                      const char **out)
{
    char *path = length && folder[0] == '/' ? join(p, folder, length, name, "") : NULL;

    if (path && pipeline_is_there(p, path)) {
        *out = path;
        return 1;
    }
    rimf_heap_release(&p->heap, path);
    return 0;
}

/* Searches beside the pass, in the folders of MVLD_PASS_PATH, in the libdir. */
static void search_library(struct pipeline *p, struct planned_pass *pass, const char *name,
                           const char *libdir)
{
    const char *list = p->pass_path, *folder;
    size_t length, beside = (size_t)(rimf_strrchr(pass->path, '/') - pass->path);

    if (library_in(p, pass->path, beside, name, &pass->library))
        return;
    while ((folder = next_folder(&list, &length)))
        if (library_in(p, folder, length, name, &pass->library))
            return;
    library_in(p, libdir, rimf_strlen(libdir), name, &pass->library);
}

/* A missing library does not refuse the pipeline: the program can run without it; only its calls into the
 * library are not found. */
int pipeline_find_library(struct pipeline *p, struct planned_pass *pass, const struct why *why)
{
    const char *name = pass->pass->library;
    const char *libdir = p->musl ? MVLD_LIB_DIR "/mvld" : MVLD_LIB_DIR;

    if (!name)
        return 0;
    if (!rimf_strrchr(name, '/')) {
        if (p->musl && !(name = join(p, "musl", sizeof "musl" - 1, name, "")))
            return refuse_at(why, ENOMEM, pass->path, 0, "out of memory");
        search_library(p, pass, name, libdir);
    } else if (name[0] != '/') {
        return refuse_at(why, EINVAL, pass->path, 0,
                         "its library '%s' is neither a name nor an absolute path", name);
    } else if (!p->musl && pipeline_is_there(p, name)) {
        pass->library = name;
    }
    if (!pass->library)
        rimf_log(&p->log, MVLD_LOG_WARNING,
                 "mvld: %s: the library '%s' of this pass is neither beside it nor in %s: "
                 "the program runs without it", pass->path, name, libdir);
    return 0;
}

/* ---- the order ---------------------------------------------------------------------- */

/* The index of the last pass that it runs behind; or i. */
static size_t place_behind(const struct pipeline *p, size_t i)
{
    size_t last = i;

    for (const char *const *n = p->passes[i].pass->behind; n && *n; n++)
        for (size_t other = last + 1; other < p->n; other++)
            if (rimf_streq(p->passes[other].name, *n))
                last = other;
    return last;
}

/* A pass is moved directly behind the last one that it runs behind, also an idle one, so that the order of all others
 * changes as little as possible.  More moves than possible without a cycle mean a cycle. */
int pipeline_order(struct pipeline *p, const struct why *why)
{
    size_t left = p->n * p->n;

    for (size_t i = 0; i < p->n;) {
        size_t last = place_behind(p, i);
        struct planned_pass it = p->passes[i];

        if (last == i) {
            i++;
            continue;
        }
        if (!left--)
            return refuse_at(why, EINVAL, p->order->file, p->order->line,
                             "the passes '%s' and '%s' each run behind the other", it.name,
                             p->passes[last].name);
        for (size_t j = i; j < last; j++)
            p->passes[j] = p->passes[j + 1];
        p->passes[last] = it;
        rimf_log(&p->log, MVLD_LOG_PASSES, "the pass '%s' runs behind '%s'", it.name,
                 p->passes[last - 1].name);
    }
    return 0;
}
