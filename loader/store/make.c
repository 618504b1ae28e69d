/* SPDX-License-Identifier: MIT
 *
 * loader/store/make.c: writes a manifest for later starts: whether now, by which process, and where.
 *
 * A new snapshot is written to a folder of its own and renamed into place whole.
 */
#include "loader/store/private.h"

#include "loader/place/place.h"
#include "loader/process/process.h"
#include "loader/store/store.h"
#include "rimf/base/cache.h"
#include "rimf/store/manifest.h"
#include "rimf/image/image.h"
#include "loader/manager/pipeline.h"

#include <errno.h> /* numbers only */
#include <fcntl.h> /* numbers only */

#ifndef RENAME_EXCHANGE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE 2
#endif

void store_end(struct loader *l, const char *before, const char *text, int status)
{
    size_t size = rimf_strlen(before) + rimf_strlen(text) + 2;
    char *line = rimf_heap_alloc(&l->heap, size);

    if (line)
        sys_write(l->sys, status ? 2 : 1, line, rimf_format(line, size, "%s%s\n", before, text));
    sys_exit(l->sys, status);
}

/* ---- before the passes run ------------------------------------------------------------- */

/* Whether the existing one was written less than a minute ago. */
static int is_young(const struct loader *l, struct store_place *place)
{
    size_t n = rimf_strlen(place->folder);
    int young = n && rimf_format(place->folder + n, STORE_PLACE_MAX - n, "/" MANIFEST_FILE) < STORE_PLACE_MAX - n &&
                caches_young(l, place->folder);

    place->folder[n] = '\0';
    return young;
}

/* Why no snapshot is written without an explicit request, or NULL.  A program may be started in turn in
 * several ways that no one snapshot fits (with LD_LIBRARY_PATH, and without): then it does not write one
 * each time.  Under a filter all writing calls are refused: not even the time is queried. */
static const char *why_not_now(struct loader *l, struct store_plan *plan)
{
    if (l->filtered->on)
        return "a filter of system calls is in force";
    if (l->snapshot->state == FOUND_UNASKED)
        return "the first one with what is preloaded is made by `mvld build'";
    store_new_place(l, &plan->place, plan->pipeline);
    return is_young(l, &plan->place) ? "the one that is there is of this minute" : NULL;
}

void store_lock(struct loader *l, struct store_plan *plan)
{
    const struct store_place *place = &plan->place;
    const char *why = NULL;

    if (l->knobs->snapshot)
        store_new_place(l, &plan->place, plan->pipeline);
    else
        why = why_not_now(l, plan);
    if (!why && place->folder[0])
        plan->lock = (int)caches_lock(l, place->folder, place->user, l->knobs->snapshot != 0, &why);
    if (!why || !sys_failed(plan->lock))
        return;
    if (l->knobs->snapshot) {
        size_t n = caches_beside(place->folder, CACHE_LOCK, l->refusal, sizeof l->refusal);
        rimf_format(l->refusal + n, sizeof l->refusal - n, "%s%s (error %d)", n ? ": " : "", why, -plan->lock);
        store_end(l, STORE_REFUSAL, l->refusal, 1);
    }
    rimf_log(&l->log, MVLD_LOG_FILES, "snapshot: none is written: %s", why);
    plan->build = plan->outdated = 0;
}

static void unlock(struct loader *l, const struct store_plan *plan)
{
    if (!sys_failed(plan->lock))
        sys_close(l->sys, plan->lock);
}

void store_remove_old(struct loader *l, const struct store_plan *plan)
{
    const struct store_place *place = &plan->place;
    const char *why;

    if (place->folder[0] && manifest_remove(l->sys, AT_FDCWD, place->folder, place->user, &why))
        rimf_log(&l->log, MVLD_LOG_FILES, "snapshot: the one that does not fit stays: %s", why);
    unlock(l, plan);
}

size_t store_record(struct loader *l, const struct store_plan *plan, size_t n)
{
    struct store_plan *kept = n ? rimf_heap_alloc(&l->heap, sizeof *kept + sizeof *kept->made) : NULL;

    if (n && !kept && l->knobs->snapshot)
        store_end(l, STORE_REFUSAL, "out of memory", 1);
    if (!kept) {
        unlock(l, plan);
        return 0;
    }
    *kept = *plan;
    kept->made = (struct rimf_start *)(kept + 1);
    l->snapshot->plan = kept;
    rimf_image_watch(l->image);
    rimf_image_will_write(l->image);
    place_set_unplaced(l);
    pipeline_makers(l->pipeline, n, kept->made);
    return n;
}

/* ---- when they have run ----------------------------------------------------------------- */

static long rename_to(struct loader *l, const char *new, const char *folder, unsigned flags)
{
    return SYS6(l->sys, SYS_renameat2, AT_FDCWD, new, AT_FDCWD, folder, flags, 0);
}

/* Replaces the old one atomically.  If the old one cannot be removed, it would block the next build: it is
 * put back. */
static int put_in_place(struct loader *l, const struct store_place *place, const char *new, const char **why)
{
    long error = rename_to(l, new, place->folder, RENAME_NOREPLACE);

    *why = "the snapshot cannot be put there";
    if (error != -EEXIST)
        return (int)error;
    error = rename_to(l, new, place->folder, RENAME_EXCHANGE);
    if (!error && (error = manifest_remove(l->sys, AT_FDCWD, new, place->user, why)))
        rename_to(l, new, place->folder, RENAME_EXCHANGE);
    return (int)error;
}

/* Only mvld should write there, and only people know whose file it is. */
static void say_in_the_way(char *said, size_t size, const char *path, int error, const char *why)
{
    rimf_format(said, size, "%s: %s (error %d): remove what is there, if it is not needed", path, why, -error);
}

/* The first object of the program whose analysis a pass wanted and did not get, or NULL; *n: their number.  A
 * snapshot without it would look as good as one with it, until somebody has it made anew. */
static const char *find_unanalysed(const struct loader *l, size_t *n)
{
    const char *first = NULL;

    *n = 0;
    for (size_t i = 0; i < rimf_api()->object_count(l->image); i++) {
        const struct mvld_object *object = rimf_api()->object_at(l->image, i);

        if (rimf_analysis_key(object) != ANALYSIS_LACKS || object->flags & MVLD_OBJECT_VDSO ||
            pipeline_brings(l->pipeline, object->name))
            continue;
        if (!(*n)++)
            first = object->name;
    }
    return first;
}

/* `mvld build' writes a snapshot all the same.  `line` is memory of this size. */
static void say_unanalysed(const struct loader *l, const char *first, size_t n, char *line, size_t size)
{
    const char *program = rimf_api()->object_at(l->image, 0)->name;
    char more[32] = "";
    size_t length;

    if (n > 1)
        rimf_format(more, sizeof more, " and %lu more", n - 1);
    length = rimf_format(line, size, "mvld: the snapshot lacks the analysis of %s%s: `mvld analyze --program %s', then "
                         "`mvld build %s' again\n", first, more, program, program);
    sys_write(l->sys, 2, line, length < size ? length : size - 1);
}

static int write_snapshot(struct loader *l, struct store_plan *plan, char *said, size_t size)
{
    struct store_place *place = &plan->place;
    char new[STORE_PLACE_MAX + sizeof CACHE_UNFINISHED];
    size_t n_unanalysed;
    const char *unanalysed = find_unanalysed(l, &n_unanalysed), *why;
    int error;

    if (unanalysed && !l->knobs->snapshot) {
        rimf_format(said, size, "%s has no analysis that fits: `mvld enable PROGRAM' makes it, and the snapshot",
                    unanalysed);
        return -ENODATA;
    }
    if (!place->folder[0]) {
        rimf_format(said, size,
                    "this user has no folder for snapshots (HOME, XDG_CACHE_HOME; MVLD_DEBUG=files says why)");
        return -ENOENT;
    }
    cache_make_folders(l->sys, place->folder, 3); /* errors appear later */
    /* Beside all snapshots: one process writes at a time. */
    rimf_format(new, sizeof new, "%.*s/" CACHE_UNFINISHED,
                (int)(rimf_strrchr(place->folder, '/') - place->folder), place->folder);
    error = manifest_remove(l->sys, AT_FDCWD, new, place->user, &why); /* the rest of a killed one */
    if (error && error != -ENOENT) {
        say_in_the_way(said, size, new, error, why);
        return error;
    }
    plan->made->made_by = store_made_by(plan->pipeline);
    plan->made->layout_seed = l->arena->layout_seed;
    plan->made->launch_key = l->snapshot->launch_key;
    error = rimf_manifest_write(l->image, new, plan->made);
    if (error) {
        const char *lacks = error == -ENODATA ? unanalysed : NULL;

        rimf_format(said, size, "%s%s%s%s", rimf_api()->last_error(l->image),
                    lacks ? ": `mvld analyze' comes first, " : "", lacks ? lacks : "",
                    lacks ? " has no analysis that fits" : "");
    } else if ((error = put_in_place(l, place, new, &why))) {
        say_in_the_way(said, size, place->folder, error, why);
    } else {
        if (unanalysed)
            say_unanalysed(l, unanalysed, n_unanalysed, said, size);
        rimf_format(said, size, "%s", place->folder);
        cpuid_keep(l, place->folder);
        if (plan->learns)
            later_start(l, place->folder, place->user, plan->passes, 1);
    }
    if (error)
        manifest_remove(l->sys, AT_FDCWD, new, place->user, &why);
    return error;
}

/* If nothing else was requested, ends the process. */
static void write_and_say(struct loader *l, struct store_plan *plan)
{
    char *room = rimf_heap_alloc(&l->heap, 2 * STORE_PLACE_MAX); /* too large for a small stack */
    const char *said = room ? room : "out of memory";
    int error = -ENOMEM;

    if (room)
        error = write_snapshot(l, plan, room, 2 * STORE_PLACE_MAX);
    rimf_log(&l->log, MVLD_LOG_FILES, "snapshot: %s%s", error ? "not written: " : "written: ", said);
    if (l->knobs->snapshot && (l->knobs->snapshot != SNAPSHOT_RUN || error))
        store_end(l, error ? STORE_REFUSAL : "", said, error ? 1 : 0);
    rimf_heap_release(&l->heap, room);
}

void store_keep(struct loader *l, int failed)
{
    struct store_plan *plan = l->snapshot->plan;

    if (failed)
        rimf_format(l->refusal, sizeof l->refusal, "a pass failed: %s", rimf_api()->last_error(l->image));
    else
        write_and_say(l, plan);
    rimf_image_watch_end(l->image);
    unlock(l, plan);
    rimf_heap_release(&l->heap, plan);
    l->snapshot->plan = NULL;
}
