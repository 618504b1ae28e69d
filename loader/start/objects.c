/* SPDX-License-Identifier: MIT
 *
 * loader/start/objects.c: turns the host loader's link map into the image, and gives the image to the
 * pipeline.
 *
 * This is done only if there is a pipeline, or the image is to be logged.  A new object enters the image
 * when loader_init is called: then it is relocated, and its dlopen has not failed.
 */
#include "loader/loader.h"

#include "loader/caller/hooks.h"
#include "loader/host/host.h"
#include "loader/place/place.h"
#include "loader/process/process.h"
#include "loader/start/start.h"
#include "loader/store/store.h"
#include "rimf/moved/moved.h"
#include "rimf/image/image.h"
#include "rimf/image/tables.h"
#include "loader/manager/pipeline.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

static int wants_objects(const struct loader *l)
{
    return l->pipeline || rimf_log_enabled(&l->log, MVLD_LOG_IMAGE | MVLD_LOG_FILES);
}

/* ---- the image ------------------------------------------------------------------- */

static int is_vdso(const struct loader *l, const struct link_map *map)
{
    return l->block->vdso && map->l_addr == l->vdso_bias;
}

/* glibc has no name for the executable, musl the one given to execve; the vDSO has none. */
static const char *name_of(const struct loader *l, const struct link_map *map)
{
    if (map == l->debug->r_map && l->main->name && (l->debug_musl || !map->l_name || !*map->l_name))
        return l->main->name;
    if (map->l_name && *map->l_name)
        return map->l_name;
    return is_vdso(l, map) ? "linux-vdso.so.1" : "";
}

/* The dynamic section may point to a snapshot's tables. */
static void describe_tables(const struct loader *l, struct rimf_source *source)
{
    const struct manifest_relocations *tables = manifest_tables_of(&l->snapshot->file, source->bias);

    if (!tables)
        return;
    source->tables = manifest_tables_at(&l->snapshot->file, tables);
    source->original_tables = source->bias + tables->linked;
    source->tables_size = tables->size;
}

/* A new object of the image. */
static void describe(void *loader, struct rimf_source *source)
{
    const struct loader *l = loader;
    const struct link_map *map = source->link_map;

    source->name = name_of(l, map);
    source->file = files_identity(l, (uintptr_t)map->l_ld);
    describe_tables(l, source);
    if (map == l->debug->r_map) {
        source->flags |= MVLD_OBJECT_MAIN;
        source->phdr = l->main->phdr;
        source->phnum = l->main->phnum;
    } else if (map->l_addr == l->host->bias) {
        source->flags |= MVLD_OBJECT_LOADER;
        source->phdr = l->host->phdr;
        source->phnum = l->host->phnum;
    } else if (is_vdso(l, map)) {
        source->flags |= MVLD_OBJECT_VDSO;
    }
}

/* Later the program may write to the block, or (in direct mode, before glibc 2.35) it may be below its
 * stack. */
static void describe_main(struct loader *l)
{
    struct block now; /* in direct mode the host loader has moved and changed it */

    block_read(&now, l->block->sp);
    l->main->name = l->program ? l->program : now.argc ? now.argv[0] : "main";
    l->main->phdr = now.phdr ? (const void *)now.phdr->a_un.a_val : NULL;
    l->main->phnum = now.phnum ? now.phnum->a_un.a_val : 0;
    if (l->direct && l->debug_musl) /* its auxv is still musl's own */
        l->main->phdr = NULL;
}

/* Returns 1 if the image has the relocated objects of the link map: an event may have changed nothing. */
static int is_current(const struct loader *l)
{
    size_t n, i = 0;
    const struct mvld_object *const *objects = rimf_image_objects(l->image, &n);

    for (const struct link_map *map = l->debug->r_map; map; map = map->l_next) {
        if (init_is_pending(l, map))
            continue;
        if (i == n || objects[i]->link_map != map || objects[i]->bias != map->l_addr)
            return 0;
        i++;
    }
    return i == n;
}

/* Lists all relocated objects of the link map.  0, or -ENOMEM. */
static int list(struct loader *l, size_t *n)
{
    struct maps *maps = l->maps;
    struct rimf_source *source;

    *n = 0;
    for (struct link_map *map = l->debug->r_map; map; map = map->l_next) {
        if (init_is_pending(l, map))
            continue;
        if (!RIMF_ONE_MORE(&l->heap, maps->sources, *n, maps->sources_room, maps->n))
            return -ENOMEM;
        source = &maps->sources[(*n)++]; /* all else stays zero until `describe` */
        source->bias = map->l_addr;
        source->dynamic = map->l_ld;
        source->link_map = map;
    }
    return 0;
}

/* Brings the image up to date with them. */
static int update(struct loader *l, struct rimf_change *change)
{
    size_t n;
    int err = list(l, &n);

    if (!err)
        err = rimf_image_update(l->image, l->maps->sources, n, change);
    if (err)
        rimf_log(&l->log, MVLD_LOG_WARNING, "image: not brought up to date (error %d)", -err);
    return err;
}

/* ---- passes ------------------------------------------------------------------------ */

/* Those of which a snapshot may hold the work, and then the others. */
static void run_passes(struct loader *l)
{
    size_t kept = store_begin(l);

    if (kept)
        store_keep(l, pipeline_run(l->pipeline, l->image, kept) || pipeline_emit(l->pipeline, l->image));
    pipeline_run(l->pipeline, l->image, SIZE_MAX);
}

static void run_passes_for(struct loader *l, const struct mvld_object *const *objects, size_t n, int unentered)
{
    struct later_coming coming;

    later_begin(l, &coming, objects, n, unentered);
    if (coming.n_rest)
        pipeline_added(l->pipeline, l->image, coming.rest, coming.n_rest, 0, l->later->passes);
    if (coming.learns)
        pipeline_emit(l->pipeline, l->image);
    later_end(l, &coming);
    pipeline_added(l->pipeline, l->image, objects, n, l->later->passes, SIZE_MAX);
}

/* `unentered`: no code of what is new has run. */
static void pass_on(struct loader *l, int unentered)
{
    struct rimf_change change;

    if (!l->image || is_current(l) || update(l, &change))
        return;
    filtered_enter(l, change.n_added != 0);
    rimf_image_feeder(l->image)->unentered = unentered;
    caller_changed(l, change.removed, change.n_removed);
    if (l->pipeline && change.n_removed)
        pipeline_removed(l->pipeline, l->image, RIMF_STAGE_RUN, change.removed, change.n_removed);
    for (size_t i = 0; i < change.n_removed; i++)
        rimf_moved_forget(l->image, change.removed[i]);
    if (l->pipeline && change.n_added) {
        writers_came(l, change.added, change.n_added);
        if (rimf_auditor(l->image)) /* learnt objects have direct calls */
            pipeline_added(l->pipeline, l->image, change.added, change.n_added, 0, SIZE_MAX);
        else
            run_passes_for(l, change.added, change.n_added, unentered);
        pipeline_rest(l->pipeline, l->image);
        rimf_image_close_analyses(l->image);
    }
    filtered_leave(l);
    if ((change.n_removed || change.n_added) && rimf_log_enabled(&l->log, MVLD_LOG_IMAGE))
        rimf_image_print(l->image);
}

/* ---- the link map ------------------------------------------------------------------ */

static size_t count_maps(const struct loader *l)
{
    size_t n = 0;

    for (const struct link_map *map = l->debug->r_map; map; map = map->l_next)
        n++;
    return n;
}

/* Allocates before anything is done for new objects, of which all may be: an object that cannot be recorded would be
 * new again at the next event. */
static int make_room(struct loader *l)
{
    for (size_t n = l->maps->n + count_maps(l); l->maps->room < n;) {
        struct link_map **more = rimf_heap_grow(&l->heap, l->maps->known, &l->maps->room, sizeof *more, n);

        if (!more)
            return -ENOMEM;
        l->maps->known = more;
    }
    return 0;
}

static void remember(struct loader *l)
{
    l->maps->n = 0;
    for (struct link_map *map = l->debug->r_map; map; map = map->l_next)
        l->maps->known[l->maps->n++] = map;
}

static void say_object(const struct loader *l, const char *what, const struct link_map *map)
{
    const char *name = name_of(l, map);

    if (map == l->debug->r_map && !*name)
        name = l->program ? l->program : "(main)"; /* l->main does not exist yet */
    rimf_log(&l->log, MVLD_LOG_FILES, "%s: %s at %lx", what, name, (unsigned long)map->l_addr);
}

/* Begins where the last one was found: the list nearly always keeps its order. */
static int is_known(const struct loader *l, const struct link_map *map, size_t *from)
{
    for (size_t n = 0; n < l->maps->n; n++) {
        size_t k = *from + n < l->maps->n ? *from + n : *from + n - l->maps->n;

        if (l->maps->known[k] == map) {
            *from = k + 1 < l->maps->n ? k + 1 : 0;
            return 1;
        }
    }
    return 0;
}

/* Stores new objects of the link map, in order, behind the known ones, and returns their number.  glibc moves an object
 * to the end if a later one is a filter of it. */
static size_t find_new(const struct loader *l)
{
    struct link_map **batch = l->maps->known + l->maps->n;
    size_t from = 0, n = 0;

    for (struct link_map *map = l->debug->r_map; map; map = map->l_next)
        if (!is_known(l, map, &from))
            batch[n++] = map;
    return n;
}

/* Code may move only if the C library can be told (caller/).  Nothing is done if no library brings a region
 * for moved code, or calls are audited: then nothing moves.  Returns 1: there is such a library. */
static int prepare_caller(struct loader *l)
{
    struct mvld_symbol code, frames;

    if (!pipeline_library(l->pipeline, 0) || moved_library(l->image, &code, &frames))
        return 0;
    if (rimf_auditor(l->image))
        return 1;
    rimf_image_feeder(l->image)->caller_hooks = caller_install;
    l->caller->deferred = 1;
    if (!l->snapshot->folder)
        caller_finish(l);
    return 1;
}

/* Nothing was moved: an unwinder that looks up a stray address in the region reads zeros as a table, and
 * does not fault (concat.S).  A failure here only affects such look-ups. */
static void open_frames(struct loader *l)
{
    struct mvld_symbol code, frames;

    if (!moved_library(l->image, &code, &frames))
        sys_mprotect(l->sys, frames.address, RIMF_PAGE, PROT_READ);
}

/* ---- from hook.c ----------------------------------------------------------- */

/* Creates the image of the stage `run`, or of another one. */
int objects_create_image(struct loader *l, struct mvld_image **image)
{
    int error = *image ? 0 : rimf_image_create(l->sys, &l->log, image);

    *image = error ? NULL : *image;
    if (!error)
        rimf_image_feeder(*image)->cookie = l;
    return error;
}

/* Everything is relocated and no constructor has run. */
void objects_start(struct loader *l)
{
    struct rimf_change change;
    int has_region;

    if (!wants_objects(l) || make_room(l))
        return;
    remember(l);
    for (size_t i = 0; i < l->maps->n; i++)
        say_object(l, "object", l->maps->known[i]);
    if (!l->pipeline && !rimf_log_enabled(&l->log, MVLD_LOG_IMAGE))
        return;
    if (objects_create_image(l, &l->image)) {
        rimf_log(&l->log, MVLD_LOG_WARNING, "image: no memory; no pass runs");
        return;
    }
    rimf_image_set_alone(l->image, l->heap.alone);
    rimf_image_feeder(l->image)->describe = describe;
    describe_main(l);
    if (update(l, &change))
        return;
    if (l->pipeline) {
        const char *method = pipeline_setting(l->pipeline, "patch");
        struct rimf_feeder *feeder = rimf_image_feeder(l->image);

        if (method && rimf_image_set_patch_method(l->image, method))
            rimf_log(&l->log, MVLD_LOG_WARNING, "patch: method %s cannot be used here", method);
        feeder->pipeline = l->pipeline;
        feeder->planned = pipeline_has;
        feeder->room = place_room;
        feeder->untraced = l->filtered->untraced;
        analysis_start(l);
        writers_came(l, change.added, change.n_added);
        has_region = prepare_caller(l);
        run_passes(l);
        if (has_region && !l->caller->installed)
            open_frames(l);
        pipeline_rest(l->pipeline, l->image);
        rimf_image_close_analyses(l->image);
        filtered_leave(l);
    }
    if (rimf_log_enabled(&l->log, MVLD_LOG_IMAGE))
        rimf_image_print(l->image);
    stage_time(l, STAGE_RUN);
}

/* The link map may have changed; new objects may not be relocated yet, and may be closed again. */
void objects_changed(struct loader *l)
{
    struct link_map **batch;
    size_t n;
    int err = 0;

    if (!l->maps->known)
        return;
    init_finish(l);
    if (make_room(l))
        return;
    batch = l->maps->known + l->maps->n;
    n = find_new(l);
    for (size_t i = 0; i < n; i++)
        say_object(l, "new object", batch[i]);
    /* musl raises the event when they are relocated, and none for failed ones */
    for (size_t i = 0; !l->debug_musl && l->image && i < n && err != -ENOMEM; i++) {
        err = init_catch(l, batch[i]);
        if (err)
            say_object(l, "not called before its constructors", batch[i]);
    }
    remember(l);
    if (err != -ENOMEM)
        pass_on(l, 0);
}

/* The objects that init_catch waited for are relocated. */
void objects_relocated(struct loader *l)
{
    pass_on(l, l->init->unentered);
}
