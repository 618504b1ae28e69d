/* SPDX-License-Identifier: MIT
 *
 * loader/start/map_stage.c: the stage `map`, for each file before any of it can run.
 *
 *     the executable     the kernel has mapped it, and nothing of it has run: looked at before
 *                        the host loader starts
 *     every other file   the host loader asks for its first mapping, which place.c answers: at the
 *                        start, and in each dlopen
 *
 * If a pass refuses a file, that mapping fails.  The host loader then reports that the object cannot be
 * mapped, and exits with 127 or fails the dlopen, as for any such file.  If files cannot be seen before
 * they are mapped, a program with such a pass does not start.
 *
 * If a pass places a file, the first mapping is made there (start/mapped.c).  For a file aligned to more
 * than a page this is too late: the host loader has reserved addresses for it before it maps the file.
 *
 * The host loader itself is not checked: it is trusted as the kernel trusts PT_INTERP.
 */
#include "loader/loader.h"

#include "loader/host/host.h"
#include "loader/manager/refused.h"
#include "loader/place/place.h"
#include "loader/process/block.h"
#include "loader/process/process.h"
#include "loader/start/start.h"
#include "rimf/base/cache.h"
#include "rimf/image/image.h"
#include "loader/manager/pipeline.h"

#include <errno.h>    /* numbers only */
#include <fcntl.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

/* Whether nothing is mapped there now. */
static int place_at(void *loader, uintptr_t address)
{
    struct loader *l = loader;
    long at;

    if (!l->mapstage->length)
        return -ENOTSUP;
    at = sys_mmap_at(l->sys, address, l->mapstage->length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                     0);
    if (sys_failed(at))
        return (int)at;
    sys_munmap(l->sys, address, l->mapstage->length);
    l->mapstage->at = address;
    return 0;
}

static int ask(struct loader *l, int fd, const char *name, uint32_t flags, const struct stat *st)
{
    size_t size = (size_t)st->st_size;
    long bytes = size ? sys_mmap(l->sys, 0, size, PROT_READ, MAP_PRIVATE, fd, 0) : 0;
    char *path = mapstage_path(l, fd);
    struct mvld_file file = {.name = name, .path = path ? path : name, .flags = flags,
                             .bytes = (const void *)bytes, .size = size,
                             .address = flags && l->block->phdr ? rimf_page_down(l->block->phdr->a_un.a_val) : 0};
    int error;

    error = sys_failed(bytes) ? rimf_api()->fail(l->image, EACCES, "%s: the file cannot be read", name)
                              : pipeline_map_file(l->pipeline, l->image, &file);
    rimf_heap_release(&l->heap, path);
    if (size && !sys_failed(bytes))
        sys_munmap(l->sys, (uintptr_t)bytes, size);
    return error;
}

static __attribute__((noreturn)) void refuse_start(struct loader *l, const char *why)
{
    char line[600];

    rimf_format(line, sizeof line, "ERROR: mvld: %s: the program is not started\n", why);
    say_and_exit(l->sys, line);
}

static void ask_executable(struct loader *l)
{
    long fd = sys_openat(l->sys, "/proc/self/exe", O_RDONLY | O_CLOEXEC, 0);
    struct stat st;
    int error = sys_failed(fd) ? (int)fd : (int)SYS3(l->sys, SYS_fstat, fd, &st, 0);

    if (error)
        refuse_start(l, "the executable cannot be read, which a pass must look at");
    error = ask(l, (int)fd, l->program ? l->program : "the executable", MVLD_OBJECT_MAIN, &st);
    sys_close(l->sys, (int)fd);
    if (error)
        refuse_start(l, rimf_api()->last_error(l->image));
}

void mapstage_start(struct loader *l)
{
    if (!pipeline_wants_files(l->pipeline))
        return;
    if (l->host->musl)
        refuse_start(l, "files of a program of musl's cannot be seen before they are mapped, "
                        "which a pass must");
    if (objects_create_image(l, &l->image))
        refuse_start(l, "there is no memory for the passes that look at files");
    rimf_image_feeder(l->image)->place = place_at;
    l->mapstage->wanted = 1;
    if (!l->direct) /* otherwise it is mapped like any other */
        ask_executable(l);
}

void mapstage_require(struct loader *l, size_t mmap_sites)
{
    if (l->mapstage->wanted && !mmap_sites)
        refuse_start(l, "the host loader's mappings cannot be seen, which a pass must");
}

/* Segments of one object are adjacent, and of one file. */
int mapstage_file(struct loader *l, const struct mmap_call *c, size_t length)
{
    struct file_id identity;
    struct stat st;
    char *name;
    int error, is_apart;

    if (SYS3(l->sys, SYS_fstat, c->fd, &st, 0))
        return -EACCES;
    file_id_of(&identity, &st);
    if (l->mapstage->passed && file_id_same(&identity, &l->mapstage->last))
        return 0;
    l->mapstage->at = 0;
    l->mapstage->length = length;
    name = mapped_name(l, c, &is_apart);
    error = ask(l, (int)c->fd, name ? name : "a file", 0, &st);
    rimf_heap_release(&l->heap, name);
    if (error) /* the host loader only reports that the object cannot be mapped */
        say_error(l, rimf_api()->last_error(l->image));
    l->mapstage->last = identity;
    l->mapstage->passed = !error;
    return error ? -EACCES : 0;
}
