/* SPDX-License-Identifier: MIT
 *
 * loader/start/mapped.c: the event that the host loader maps something.  Each of its mmap calls leads
 * here (entry.S), and what is an object's goes, in this order, through the stage `map`, to its
 * place, and through the stage `relocate`.
 */
#include "loader/loader.h"

#include <errno.h>    /* numbers only */
#include <fcntl.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

/* An object's first mapping: of the whole file, or, when the object wants more
 * than page alignment, of address space for it (glibc since 2.41 keeps the flag
 * of the file's mapping there).  musl's has no mark, and the whole program maps through
 * the same call: only until the first event is all of it musl's own, and of one thread. */
static int is_object(const struct loader *l, const struct mmap_call *c)
{
    if (c->address || (c->flags & MAP_FIXED) || !c->length)
        return 0;
    if (l->host.musl)
        return !l->started && (int)c->fd >= 0 && c->flags == MAP_PRIVATE;
    if ((int)c->fd >= 0)
        return (c->flags & MAP_DENYWRITE) != 0;
    return c->prot == PROT_NONE &&
           (c->flags & ~(uintptr_t)MAP_DENYWRITE) == (MAP_PRIVATE | MAP_ANONYMOUS);
}

/* An object's first mapping. */
static long map_near(struct loader *l, const struct mmap_call *c)
{
    uintptr_t wanted = l->mapstage.wanted && (int)c->fd >= 0 ? l->mapstage.at : 0;
    long at = place_map(l, c, wanted ? wanted : later_place(l, (int)c->fd, c->length));

    if (wanted && at != (long)wanted)
        rimf_log(&l->log, MVLD_LOG_WARNING, "mvld: a file is not mapped at %lx, where a pass wants it", wanted);
    return at;
}

/* The first mapping of an object's file spans all of it, whether it got address space before or not. */
static void note_file(struct loader *l, const struct mmap_call *c, uintptr_t at)
{
    struct files *files = &l->files;
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

/* Of the host loader's own; or of the program's, through musl. */
static int is_memory(const struct mmap_call *c)
{
    return !c->address && (int)c->fd < 0 && c->prot == (PROT_READ | PROT_WRITE);
}

/* An object's data, which relocation writes at once: rather filled now than by two faults a page. */
static int is_data(const struct mmap_call *c)
{
    return (c->flags & (MAP_FIXED | MAP_DENYWRITE)) == (MAP_FIXED | MAP_DENYWRITE) &&
           (int)c->fd >= 0 && c->prot == (PROT_READ | PROT_WRITE) && c->length <= POPULATE_MAX;
}

/* In place of an mmap of the host loader's. */
long loader_mmap(struct loader *l, const struct mmap_call *c)
{
    long at;

    if (l->mapstage.wanted && (int)c->fd >= 0 && c->flags & MAP_DENYWRITE &&
        mapstage_file(l, c, is_object(l, c) ? c->length : 0))
        return -EACCES;
    if (l->snapshot.awaited == l->files.n && l->snapshot.awaited && is_memory(c))
        relocations_replace(l);
    at = is_object(l, c) ? map_near(l, c) : -EINVAL;

    if (sys_failed(at))
        at = SYS6(l->sys, SYS_mmap, c->address, c->length, c->prot,
                  c->flags | (is_data(c) ? MAP_POPULATE : 0), c->fd, c->offset);
    if (!sys_failed(at) && !l->host.musl)
        note_file(l, c, (uintptr_t)at);
    if (!sys_failed(at) && l->relocatestage.wanted && (int)c->fd >= 0 && c->flags & MAP_DENYWRITE)
        relocatestage_mapped(l, (uintptr_t)at, c, is_object(l, c));
    return at;
}
