/* SPDX-License-Identifier: MIT
 *
 * objects.c: the objects of the process, under a plain ld.so.
 *
 * dl_iterate_phdr counts additions and removals of objects.  If neither count changed there is
 * nothing to do.  Otherwise the list is read again.  Objects that another thread may close
 * meanwhile are pinned (pins.c) or left out.
 *
 * An address does not identify an object: a library that is closed and opened again is often mapped
 * at the same address, but unpatched, and may be another file.  So whenever something was removed,
 * an object is the old one only if it has the same segments and every site and entry still has the
 * bytes that we wrote.  All others are forgotten and gathered anew.
 */
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "passes/multiverse/library/library.h"

#include "rimf/elf/headers.h"
#include "rimf/image/image.h"

struct listing {
    struct mv_engine *engine;
    struct rimf_source *sources;
    size_t n, capacity;
    char program[4096];
};

const void *mv_library_dynamic(const struct dl_phdr_info *info)
{
    const ElfW(Phdr) *found = elf_phdr_last(info->dlpi_phdr, info->dlpi_phnum, PT_DYNAMIC);

    return found ? (const void *)(info->dlpi_addr + found->p_vaddr) : NULL;
}

static uint32_t flags_of(const struct dl_phdr_info *info, int first)
{
    if (first)
        return MVLD_OBJECT_MAIN;
    if (info->dlpi_addr && info->dlpi_addr == getauxval(AT_SYSINFO_EHDR))
        return MVLD_OBJECT_VDSO;
    if (info->dlpi_addr && info->dlpi_addr == getauxval(AT_BASE))
        return MVLD_OBJECT_LOADER;
    return 0;
}

static int count_object(struct dl_phdr_info *info, size_t size, void *cookie)
{
    (void)info;
    (void)size;
    ++*(size_t *)cookie;
    return 0;
}

static int list_object(struct dl_phdr_info *info, size_t size, void *cookie)
{
    struct listing *listing = cookie;
    const char *name = info->dlpi_name;

    (void)size;
    if (listing->n == listing->capacity)
        return 1;
    if (!name || !*name)
        name = listing->n ? "(unnamed)" : listing->program;
    listing->sources[listing->n] = (struct rimf_source){
        .name = name,
        .bias = info->dlpi_addr,
        .dynamic = mv_library_dynamic(info),
        .phdr = info->dlpi_phdr,
        .phnum = info->dlpi_phnum,
        .flags = flags_of(info, listing->n == 0),
    };
    listing->n++;
    return 0;
}

static void name_program(struct listing *listing)
{
    ssize_t n = readlink("/proc/self/exe", listing->program, sizeof listing->program - 1);

    if (n > 0)
        listing->program[n] = 0;
    else
        strcpy(listing->program, "(the program)");
}

static const struct rimf_source *source_of(const struct listing *listing,
                                           const struct mvld_object *object)
{
    for (size_t i = 0; i < listing->n; i++)
        if (listing->sources[i].bias == object->bias &&
            listing->sources[i].dynamic == object->dynamic)
            return &listing->sources[i];
    return NULL;
}

/* Whether the program headers are unchanged. */
static int same_segments(const struct rimf_source *source, const struct mvld_object *object)
{
    const ElfW(Phdr) *phdr = source->phdr;
    size_t n = 0;

    for (size_t i = 0; i < source->phnum; i++) {
        if (phdr[i].p_type != PT_LOAD || !phdr[i].p_memsz) /* the image has no empty ones */
            continue;

        uintptr_t start = source->bias + phdr[i].p_vaddr;

        if (n == object->n_segments || object->segments[n].start != start ||
            object->segments[n].end != start + phdr[i].p_memsz)
            return 0;
        n++;
    }
    return n == object->n_segments;
}

/* The objects that were not closed, as far as can be known; returns their number. */
static size_t keep_known(struct listing *listing, struct rimf_source *kept)
{
    struct mv_engine *engine = listing->engine;
    size_t n = 0;

    for (size_t i = 0; i < engine->api->object_count(engine->image); i++) {
        const struct mvld_object *object = engine->api->object_at(engine->image, i);
        const struct rimf_source *source = source_of(listing, object);
        int fixed = object->flags & (MVLD_OBJECT_MAIN | MVLD_OBJECT_VDSO | MVLD_OBJECT_LOADER);

        if (source && (fixed || (mv_object_is_intact(engine, object) &&
                                 same_segments(source, object))))
            kept[n++] = *source;
    }
    return n;
}

static int update(struct mv_engine *engine, const struct rimf_source *sources, size_t n)
{
    struct rimf_change change;
    int err = rimf_image_update(engine->image, sources, n, &change);

    if (err)
        return err;
    if (change.n_removed)
        mv_removed(engine, change.removed, change.n_removed);
    if (!change.n_added)
        return 0;
    err = mv_added(engine, change.added, change.n_added);
    if (!err)
        err = mv_apply_fresh(engine);
    return err < 0 ? err : 0;
}

/* Leaves out objects that another thread may be closing.  -EAGAIN: an object came after the pins
 * were taken. */
static int leave_out_closing(struct listing *listing)
{
    struct mv_reply *reply = listing->engine->reply;
    size_t n = 0;

    for (size_t i = 0; reply && reply->pins && i < listing->n; i++) {
        const struct rimf_source *source = &listing->sources[i];
        struct mv_pin *pin = mv_find_pin(reply, source->bias, source->dynamic);

        if (!pin)
            return -EAGAIN;
        if (pin->fixed || pin->handle || !pin->needed)
            listing->sources[n++] = *source;
    }
    if (reply && reply->pins)
        listing->n = n;
    return 0;
}

static int relist(struct listing *listing, int was_removed)
{
    struct mv_engine *engine = listing->engine;
    size_t n = 0, bytes;
    int err = 0;

    mv_list_each(count_object, &n);
    bytes = (2 * n + 1) * sizeof *listing->sources; /* a second half for keep_known */
    listing->sources = engine->api->alloc(engine->image, bytes);
    if (!listing->sources)
        return -ENOMEM;
    listing->capacity = n;
    mv_list_each(list_object, listing);
    err = leave_out_closing(listing);
    if (!err && was_removed) {
        struct rimf_source *kept = listing->sources + n;

        err = update(engine, kept, keep_known(listing, kept));
    }
    if (!err)
        err = update(engine, listing->sources, listing->n);
    engine->api->release(engine->image, listing->sources);
    return err < 0 ? err : 0;
}

/* Called for the first object, with the list locked. */
static int look(struct dl_phdr_info *info, size_t size, void *cookie)
{
    struct listing *listing = cookie;
    struct mv_engine *engine = listing->engine;
    struct mv_reply *reply = engine->reply;
    int err;

    (void)size;
    if (engine->listed && engine->n_added == info->dlpi_adds && engine->n_removed == info->dlpi_subs)
        return 1;
    if (reply && reply->pins && reply->n_removed != info->dlpi_subs)
        return -EAGAIN;
    name_program(listing);
    err = relist(listing, engine->listed && engine->n_removed != info->dlpi_subs);
    if (err)
        return err;
    engine->n_added = info->dlpi_adds;
    engine->n_removed = info->dlpi_subs;
    engine->listed = 1;
    return 1;
}

static int is_in(const struct link_map *map, const struct mvld_object *object)
{
    while (map && (map->l_addr != object->bias || (const void *)map->l_ld != object->dynamic))
        map = map->l_next;
    return map != NULL;
}

/* Lists the known objects that still exist.  Others may be half relocated, by a thread that does
 * not exist in this process. */
static int relist_known(struct mv_engine *engine, const struct link_map *map)
{
    size_t n = engine->api->object_count(engine->image);
    struct listing listing = {.engine = engine};
    int err;

    listing.sources = engine->api->alloc(engine->image, (2 * n + 1) * sizeof *listing.sources);
    if (!listing.sources)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const struct mvld_object *o = engine->api->object_at(engine->image, i);

        if (is_in(map, o))
            listing.sources[listing.n++] = (struct rimf_source){.name = o->name, .bias = o->bias,
                .dynamic = o->dynamic, .phdr = o->phdr, .phnum = o->phnum, .flags = o->flags};
    }
    err = update(engine, listing.sources + n, keep_known(&listing, listing.sources + n));
    engine->api->release(engine->image, listing.sources);
    return err;
}

int mv_library_refresh(struct mv_engine *engine)
{
    const struct link_map *frozen = mv_list_lost();
    struct listing listing;
    int result;

    if (frozen)
        return relist_known(engine, frozen);

    listing.engine = engine;
    listing.sources = NULL;
    listing.n = listing.capacity = 0;
    result = mv_list_each(look, &listing);
    return result < 0 ? result : 0;
}
