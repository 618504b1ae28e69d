/* SPDX-License-Identifier: MIT
 *
 * loader/start/mapped.c: handles the host loader's mmap calls, which jump here (entry.S).  A call for an
 * object goes through the stage `map`, gets an address, and goes through the stage `relocate`.
 */
#include "loader/loader.h"

#include "loader/host/host.h"
#include "loader/place/place.h"
#include "loader/start/start.h"
#include "loader/store/store.h"
#include "rimf/elf/headers.h"

#include <errno.h>    /* numbers only */
#include <fcntl.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

/* An object's first mapping: of the whole file, or, if the object wants more than page alignment, a
 * reservation of addresses (glibc since 2.41 passes the flag of the file's mapping there, too).  musl's has
 * no mark, and the whole program maps through the same call: only until the first event all calls are
 * musl's, by one thread. */
static int is_object(const struct loader *l, const struct mmap_call *c)
{
    if (c->address || (c->flags & MAP_FIXED) || !c->length)
        return 0;
    if (l->host->musl)
        return !l->started && (int)c->fd >= 0 && c->flags == MAP_PRIVATE;
    if ((int)c->fd >= 0)
        return (c->flags & MAP_DENYWRITE) != 0;
    return c->prot == PROT_NONE &&
           (c->flags & ~(uintptr_t)MAP_DENYWRITE) == (MAP_PRIVATE | MAP_ANONYMOUS);
}

/* An object's first mapping. */
static long map_near(struct loader *l, const struct mmap_call *c)
{
    uintptr_t wanted = l->mapstage->wanted && (int)c->fd >= 0 ? l->mapstage->at : 0;
    long at = place_map(l, c, wanted ? wanted : later_place(l, (int)c->fd, c->length));

    if (wanted && at != (long)wanted)
        rimf_log(&l->log, MVLD_LOG_WARNING, "mvld: a file is not mapped at %lx, where a pass wants it", wanted);
    return at;
}

/* The first mapping of an object's file spans all of it, with or without a reservation before. */
static void note_file(struct loader *l, const struct mmap_call *c, uintptr_t at)
{
    struct files *files = l->files;
    int is_first = is_object(l, c);

    if (is_first) {
        files->segmented = 0;
        files->reserved = (int)c->fd < 0;
    }
    if ((int)c->fd < 0 ||
        !(is_first || ((files->reserved || files->segmented) && c->flags & MAP_DENYWRITE)))
        return;
    files->reserved = 0;
    files_note(l, at, c->length, (int)c->fd);
}

/* Memory of the host loader; or of the program, through musl. */
static int is_memory(const struct mmap_call *c)
{
    return !c->address && (int)c->fd < 0 && c->prot == (PROT_READ | PROT_WRITE);
}

/* An object's data, which relocation writes at once: populating it is cheaper than two faults a page. */
static int is_data(const struct mmap_call *c)
{
    return (c->flags & (MAP_FIXED | MAP_DENYWRITE)) == (MAP_FIXED | MAP_DENYWRITE) &&
           (int)c->fd >= 0 && c->prot == (PROT_READ | PROT_WRITE) && c->length <= POPULATE_MAX;
}

long loader_mmap(struct loader *l, const struct mmap_call *c)
{
    long at;

    if (l->mapstage->wanted && (int)c->fd >= 0 && c->flags & MAP_DENYWRITE &&
        mapstage_file(l, c, is_object(l, c) ? c->length : 0))
        return -EACCES;
    if (l->snapshot->awaited == l->files->n && l->snapshot->awaited && is_memory(c))
        relocations_replace(l);
    at = is_object(l, c) ? map_near(l, c) : -EINVAL;

    if (sys_failed(at))
        at = SYS6(l->sys, SYS_mmap, c->address, c->length, c->prot,
                  c->flags | (is_data(c) ? MAP_POPULATE : 0), c->fd, c->offset);
    if (!sys_failed(at) && !l->host->musl)
        note_file(l, c, (uintptr_t)at);
    if (!sys_failed(at) && l->relocatestage->wanted && (int)c->fd >= 0 && c->flags & MAP_DENYWRITE)
        relocatestage_mapped(l, (uintptr_t)at, c, is_object(l, c));
    return at;
}
