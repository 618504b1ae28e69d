/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/perf.c: perf gets the names of moved code, by a text that it looks for when samples lie in
 * anonymous memory:
 *
 *     /tmp/perf-PID.map:     address size name       hexadecimal, a line a function
 *
 * Whoever can write /tmp can have put another file, or a link, under that name: it is only
 * taken when it is made here, and later when it is still ours.  With raised rights no code moves, so
 * there is no file either.
 */
#include "rimf/moved/moved.h"
#include "rimf/moved/symfile.h"

#include "rimf/base/base.h"
#include "rimf/image/private.h"

#include <errno.h>    /* numbers only */
#include <fcntl.h>    /* numbers only */
#include <sys/stat.h> /* numbers only */

#define MAP_BUFFER 8192u
#define MAP_NAME_MAX 1024u
#define MAP_SIZE_MAX (1ul << 30) /* clang's has 20 MB */

struct map {
    const struct mvld_image *image;
    int fd, error;
    size_t n;
    char text[MAP_BUFFER];
};

static void flush(struct map *map)
{
    for (size_t done = 0; done < map->n && !map->error;) {
        long n = sys_write(map->image->sys, map->fd, map->text + done, map->n - done);

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
    const char *slash = rimf_strrchr(s->object->name, '/'), *name = s->name;

    if (!name)
        name = slash ? slash + 1 : s->object->name;
    if (map->error || rimf_strlen(name) > MAP_NAME_MAX)
        return;
    if (map->n + MAP_NAME_MAX + 64 > sizeof map->text)
        flush(map);
    map->n += rimf_format(map->text + map->n, sizeof map->text - map->n, "%lx %lx %s", s->address,
                          s->size, name);
    if (!s->name) /* as tools that know no symbols say it */
        map->n += rimf_format(map->text + map->n, sizeof map->text - map->n, "+0x%lx",
                              rimf_original_of(map->image, s->address) - s->object->bias);
    map->text[map->n++] = '\n';
}

/* A file that is made now, or that we made before. */
static long open_map(const struct rimf_sys *sys, int is_first)
{
    char path[40];
    struct stat st;
    long fd;

    if (!sys_file_may_reach(sys, MAP_SIZE_MAX))
        return -EFBIG;
    rimf_format(path, sizeof path, "/tmp/perf-%ld.map", SYS3(sys, SYS_getpid, 0, 0, 0));
    fd = sys_openat(sys, path,
                    O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY |
                        (is_first ? O_CREAT | O_EXCL : 0),
                    0600);
    if (sys_failed(fd) || is_first)
        return fd;
    if (SYS3(sys, SYS_fstat, fd, &st, 0) || !S_ISREG(st.st_mode) || st.st_nlink != 1 ||
        (long)st.st_uid != SYS3(sys, SYS_geteuid, 0, 0, 0)) {
        sys_close(sys, (int)fd);
        return -EPERM;
    }
    return fd;
}

int moved_names_perf(struct mvld_image *image)
{
    size_t *next = &image->moved->n_perf;
    struct map *map = rimf_heap_alloc(&image->heap, sizeof *map);
    long fd = map ? open_map(image->sys, *next == 0) : -ENOMEM;
    int error;

    if (sys_failed(fd)) {
        rimf_heap_release(&image->heap, map);
        return rimf_fail(image, (int)-fd,
                         "the map of copies for perf cannot be made in /tmp (error %ld)", -fd);
    }
    map->image = image;
    map->fd = (int)fd;
    error = moved_names_each(image, next, 1, add_line, map);
    flush(map);
    if (!error && map->error)
        error = rimf_fail(image, -map->error,
                          "the map of copies for perf cannot be written (error %d)", -map->error);
    sys_close(image->sys, map->fd);
    rimf_heap_release(&image->heap, map);
    return error;
}
