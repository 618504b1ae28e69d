/* SPDX-License-Identifier: MIT
 *
 * tell.c: debuggers and profilers get the names of the copies.
 *
 * Debuggers by GDB's JIT interface, whose descriptor is in libconcat.so.1 (rimf/moved/symfile.h).
 * perf by a text that it looks for when samples lie in anonymous memory:
 *
 *     /tmp/perf-PID.map:     address size name       hexadecimal, a line a function
 *
 * Whoever can write /tmp can have put another file, or a link, under that name: it is only
 * taken when it is made here, and later when it is still ours.  With raised rights there
 * are no copies, so no file either.
 */
#include "concat.h"

#include "rimf/base/base.h"
#include "rimf/base/sys.h"

#include <errno.h>    /* numbers only */
#include <fcntl.h>    /* numbers only */
#include <sys/stat.h> /* numbers only */

#define MAP_BUFFER 8192u
#define MAP_NAME_MAX 1024u
#define MAP_SIZE_MAX (1ul << 30) /* clang's has 20 MB */

/* ---- debuggers ------------------------------------------------------------------- */

#define JIT_DESCRIPTOR_SIZE 24u /* version, action, two pointers */

static int tell_debuggers(const struct mvld_context *ctx)
{
    const struct mvld_api *api = ctx->api;
    struct mvld_symbol descriptor, changed;

    for (size_t i = 0; i < api->object_count(ctx->image); i++) {
        const struct mvld_object *object = api->object_at(ctx->image, i);

        if (api->symbol_find(object, "concat_jit", NULL, &descriptor) ||
            api->symbol_find(object, "concat_jit_changed", NULL, &changed) ||
            !api->object_holds(object, descriptor.address, JIT_DESCRIPTOR_SIZE, 3 /* RW */) ||
            !api->object_holds(object, changed.address, 1, 5 /* RX */))
            continue;
        return api->copies_debug(ctx->image, (void *)descriptor.address,
                                 (void (*)(void))changed.address);
    }
    return api->fail(ctx->image, ENOENT, "libconcat.so.1 has no descriptor for debuggers");
}

/* ---- perf -------------------------------------------------------------------------- */

struct map {
    const struct mvld_context *ctx;
    int fd, error;
    size_t n;
    char text[MAP_BUFFER];
};

static void flush(struct map *map)
{
    for (size_t done = 0; done < map->n && !map->error;) {
        long n = sys_write(map->ctx->sys, map->fd, map->text + done, map->n - done);

        if (n > 0)
            done += (size_t)n;
        else if (n != -EINTR)
            map->error = n ? (int)n : -EIO;
    }
    map->n = 0;
}

static void add_line(void *cookie, const struct mvld_symbol *s)
{
    struct map *map = cookie;
    const char *name = s->name ? s->name : concat_file_name(s->object);

    if (map->error || rimf_strlen(name) > MAP_NAME_MAX)
        return;
    if (map->n + MAP_NAME_MAX + 64 > sizeof map->text)
        flush(map);
    map->n += rimf_format(map->text + map->n, sizeof map->text - map->n, "%lx %lx %s", s->address,
                          s->size, name);
    if (!s->name) /* as tools that know no symbols say it */
        map->n += rimf_format(map->text + map->n, sizeof map->text - map->n, "+0x%lx",
                              map->ctx->api->copy_home(map->ctx->image, s->address) -
                                  s->object->bias);
    map->text[map->n++] = '\n';
}

/* A file that is made now, or that we made before. */
static long open_map(const struct mvld_context *ctx, int is_first)
{
    char path[40];
    struct stat st;
    long fd;

    if (!sys_file_may_reach(ctx->sys, MAP_SIZE_MAX))
        return -EFBIG;
    rimf_format(path, sizeof path, "/tmp/perf-%ld.map", SYS3(ctx->sys, SYS_getpid, 0, 0, 0));
    fd = sys_openat(ctx->sys, path,
                    O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY |
                        (is_first ? O_CREAT | O_EXCL : 0),
                    0600);
    if (sys_failed(fd) || is_first)
        return fd;
    if (SYS3(ctx->sys, SYS_fstat, fd, &st, 0) || !S_ISREG(st.st_mode) || st.st_nlink != 1 ||
        (long)st.st_uid != SYS3(ctx->sys, SYS_geteuid, 0, 0, 0)) {
        sys_close(ctx->sys, (int)fd);
        return -EPERM;
    }
    return fd;
}

static int tell_perf(const struct mvld_context *ctx, size_t *told)
{
    struct map *map = ctx->api->alloc(ctx->image, sizeof *map);
    long fd = map ? open_map(ctx, *told == 0) : -ENOMEM;
    int error;

    if (sys_failed(fd)) {
        ctx->api->release(ctx->image, map);
        return ctx->api->fail(ctx->image, (int)-fd,
                              "the map of copies for perf cannot be made in /tmp (error %ld)", -fd);
    }
    map->ctx = ctx;
    map->fd = (int)fd;
    error = ctx->api->copy_names(ctx->image, told, 1, add_line, map);
    flush(map);
    if (!error && map->error)
        error = ctx->api->fail(ctx->image, -map->error,
                               "the map of copies for perf cannot be written (error %d)",
                               -map->error);
    sys_close(ctx->sys, map->fd);
    ctx->api->release(ctx->image, map);
    return error;
}

/* -------------------------------------------------------------------------------------- */

/* How many copies perf knows: one process has one pipeline. */
static size_t told_perf;

void concat_report(const struct mvld_context *ctx)
{
    const struct mvld_api *api = ctx->api;

    if (ctx->settings[CONCAT_DEBUGGER].number && tell_debuggers(ctx))
        api->log(ctx->image, MVLD_LOG_WARNING, "concat: debuggers find no names: %s",
                 api->last_error(ctx->image));
    if (ctx->settings[CONCAT_PERF_MAP].number && tell_perf(ctx, &told_perf))
        api->log(ctx->image, MVLD_LOG_WARNING, "concat: %s", api->last_error(ctx->image));
}
