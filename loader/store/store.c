/* SPDX-License-Identifier: MIT
 *
 * loader/store/store.c: a program starts from a manifest (rimf/store/manifest.h), or makes one (store/make.c).
 *
 * Snapshots are in folders named after the program and the plan, so a new one replaces the old: root's in
 * /var/cache/mvld/snapshots, a user's own in the user's cache.  [app] on-miss decides what happens without
 * a snapshot that fits:
 *
 *     plain       the program runs without these passes
 *     transform   they run in this process, as if there were no snapshots (the default)
 *     build       they do, and what they did is written for the next process
 *     learn       the same; and what comes by dlopen is added to the snapshot, by any process
 *                 in which something comes that is not in it (later.c)
 *
 * MVLD_SNAPSHOT=1 (`mvld build`) writes and exits: no constructor of the program runs.  MVLD_SNAPSHOT=run
 * (`mvld build --run`) is `learn` for one run.  MVLD_SNAPSHOT=check (`mvld build --check`) writes nothing:
 * an ordinary start, until a snapshot is applied or not; then it reports which one, or why not, and exits.
 * No constructor of the program runs.
 */
#include "loader/store/private.h"

#include "loader/caller/hooks.h"
#include "loader/place/place.h"
#include "loader/process/process.h"
#include "loader/store/store.h"
#include "rimf/moved/moved.h"
#include "rimf/store/manifest.h"
#include "rimf/image/image.h"
#include "rimf/image/tables.h"
#include "loader/manager/pipeline.h"

#include <errno.h> /* numbers only */
#include <link.h>

/* ---- applying ----------------------------------------------------------------------- */

static void say_unplaced(const struct loader *l, const struct manifest *m)
{
    for (uint32_t i = 0; i < m->header->n_objects; i++)
        if (m->objects[i].flags & MANIFEST_UNPLACED && m->objects[i].file.inode)
            rimf_log(&l->log, MVLD_LOG_FILES, "snapshot: %s: left plain: it lies elsewhere each time",
                     m->names + m->objects[i].name);
}

/* `name`, if not NULL, is the file that does not fit. */
static void say_not_applied(struct loader *l, const char *folder, const char *name, const char *why)
{
    rimf_log(&l->log, MVLD_LOG_FILES, "snapshot %s: not applied: %s%s%s", folder, name ? name : "", name ? ": " : "",
             why);
    if (l->knobs->check)
        rimf_format(l->refusal, sizeof l->refusal, "%s%s%s", name ? name : "", name ? ": " : "", why);
}

/* Maps the snapshot of that folder as l->snapshot.  The folder stays open until the snapshot is applied or
 * forgotten, before any code of the program runs.  The host loader, which needs one descriptor at a time,
 * has one free: the snapshot was open beside the folder. */
static int take_manifest(struct loader *l, const struct store_place *place)
{
    struct found_snapshot *found = l->snapshot;
    const char *why;
    int error;

    if (!place->folder[0])
        return 0;
    error = manifest_map_start(&found->file, l->sys, place->folder, place->user, &why);
    if (error && error != -ENOENT)
        say_not_applied(l, place->folder, NULL, why);
    if (error != -ENOENT)
        found->state = FOUND_UNFIT;
    if (error)
        return 0;
    why = manifest_other_read(&found->file.view, l->sys);
    if (why)
        say_not_applied(l, place->folder, why, "it is another file");
    else
        found->folder = rimf_heap_copy(&l->heap, place->folder);
    if (found->folder)
        found->state = FOUND_MAPPED;
    else
        manifest_unmap(&found->file, l->sys);
    found->file.filtered = l->filtered->on;
    return found->folder != NULL;
}

static int take_users(struct loader *l)
{
    struct store_place place;

    store_user_place(l, &place, l->snapshot->pipeline);
    return take_manifest(l, &place);
}

static int may_apply(const struct loader *l)
{
    return l->program && l->arena->end && !l->knobs->watcher &&
           l->knobs->snapshot != SNAPSHOT_START;
}

void store_forget(struct loader *l)
{
    if (!l->snapshot->folder)
        return;
    if (relocations_take_texts_back(l))
        store_end(l, "mvld: ",
                   "code of a snapshot that is not used lies over that of a file, and cannot be taken away", 127);
    if (l->snapshot->state != FOUND_APPLIED)
        l->snapshot->state = l->snapshot->file.early.moved ? FOUND_LEFT : FOUND_UNFIT;
    if (manifest_take_back(&l->snapshot->file, l->sys))
        store_end(l, "mvld: ", "words lead to moved code that is not used, and cannot get their originals back",
                   127);
    rimf_heap_release(&l->heap, l->snapshot->folder);
    l->snapshot->folder = NULL;
    manifest_unmap(&l->snapshot->file, l->sys);
    rimf_heap_release(&l->heap, l->snapshot->biases);
    l->snapshot->biases = NULL;
}

/* Returns 1 if there is one. */
static int find_manifest(struct loader *l, size_t n)
{
    struct store_place place;

    l->snapshot->pipeline = store_fingerprint(l, n);
    store_system_place(l, &place, l->snapshot->pipeline);
    l->snapshot->is_users = !take_manifest(l, &place);
    return !l->snapshot->is_users || take_users(l);
}

static int is_ours(const struct loader *l)
{
    return l->snapshot->file.view.header->made_by == store_made_by(l->snapshot->pipeline);
}

void store_complete(struct loader *l)
{
    int error = pipeline_complete(l->pipeline, l->refusal, sizeof l->refusal);

    if (error)
        say_refused(l, error);
    files_want(l);
}

/* A snapshot of all passes saves mapping them.  Only the snapshot knows their libraries, and so whether
 * another snapshot is this start's. */
static int find_late(struct loader *l)
{
    if (may_apply(l) && find_manifest(l, pipeline_count(l->pipeline))) {
        if (is_ours(l) && pipeline_know(l->pipeline, &l->snapshot->file.view) && !store_leaves_out(l))
            return 1;
        store_forget(l);
    }
    store_complete(l);
    return 0;
}

/* The folder's name tells the program, pipeline and kind of start. */
static void say_none(struct loader *l)
{
    struct store_place place;

    if (!rimf_log_enabled(&l->log, MVLD_LOG_FILES))
        return;
    store_new_place(l, &place, l->snapshot->pipeline);
    rimf_log(&l->log, MVLD_LOG_FILES, "snapshot: there is none: %s",
             place.folder[0] ? place.folder : "this user has no folder for snapshots");
}

void store_find(struct loader *l)
{
    size_t n;

    l->snapshot->launch_key = store_launch_key(l);
    if (!pipeline_is_late(l->pipeline) || !find_late(l)) {
        n = may_apply(l) ? pipeline_in_snapshot(l->pipeline) : 0;
        if (!n)
            return;
        if (!find_manifest(l, n)) {
            say_none(l);
            if (l->snapshot->state == FOUND_NONE && store_preloads(l) && !l->knobs->snapshot)
                l->snapshot->state = FOUND_UNASKED;
            return;
        }
    }
    /* Later passes, and a process that may have to build a snapshot, read the tables; and the executable is
     * mapped first. */
    n = pipeline_in_snapshot(l->pipeline);
    if (!l->knobs->snapshot && l->snapshot->file.view.header->n_relocations &&
        n == pipeline_count(l->pipeline) && !l->direct && is_ours(l))
        relocations_expect(l);
}

/* Debuggers find an object's file by the link map.  The library that contains moved code has no names for
 * it; the snapshot's has, at the addresses of that library. */
static void name_moved(struct loader *l)
{
    const char *folder = l->snapshot->folder;
    size_t size = rimf_strlen(folder) + sizeof "/" MOVED_FILE;
    struct mvld_symbol code, frames;
    char *name;

    if (!l->snapshot->file.view.region || moved_library(l->image, &code, &frames))
        return;
    name = rimf_heap_alloc(&l->heap, size);
    if (!name)
        return;
    rimf_format(name, size, "%s/" MOVED_FILE, folder);
    ((struct link_map *)code.object->link_map)->l_name = name;
}

/* l->snapshot goes, applied or not. */
static void apply_found(struct loader *l, const struct store_plan *plan)
{
    struct manifest_file *file = &l->snapshot->file;
    const struct mvld_object *object = NULL;
    const char *why = NULL;
    long texts = rimf_manifest_apply(l->image, file, store_made_by(l->snapshot->pipeline), &why, &object);

    if (texts < 0) {
        say_not_applied(l, l->snapshot->folder, object ? object->name : NULL, why);
    } else {
        l->snapshot->state = FOUND_APPLIED;
        file->early.moved = 0; /* they stay redirected */
        file->early.end_text = file->early.first_text;
        say_unplaced(l, &file->view);
        name_moved(l);
        rimf_log(&l->log, MVLD_LOG_FILES, "snapshot %s: applied, the code of %ld segments",
                 l->snapshot->folder, texts);
        later_start(l, l->snapshot->folder, file->user, plan->passes, plan->learns);
    }
    store_forget(l);
}

/* The user's snapshot is older than root's, and has other distances. */
static int lies_elsewhere(struct loader *l)
{
    if (l->snapshot->file.view.header->layout_seed == l->arena->layout_seed)
        return 0;
    say_not_applied(l, l->snapshot->folder, NULL,
                   "root's is tried first and has other distances: `mvld build' makes this one anew");
    store_forget(l);
    return 1;
}

static void apply(struct loader *l, const struct store_plan *plan)
{
    if (l->snapshot->folder)
        apply_found(l, plan);
    if (l->snapshot->state < FOUND_APPLIED && !l->snapshot->is_users && take_users(l) && !lies_elsewhere(l))
        apply_found(l, plan);
}

/* ---- what the pipeline does with it ----------------------------------------------------- */

/* An auditor would miss the direct calls of a snapshot. */
static struct store_plan plan_images(struct loader *l, const char *miss)
{
    size_t n = l->program && !l->knobs->watcher ? pipeline_in_snapshot(l->pipeline) : 0;
    int learn = l->knobs->snapshot == SNAPSHOT_RUN || rimf_streq(miss, "learn");
    /* Distances are reproducible only if we choose them.  A process with more rights than its caller does
     * not write. */
    int may = n && l->arena->end && !l->block->secure;
    int wanted = may && !l->knobs->check && (l->knobs->snapshot || learn || rimf_streq(miss, "build"));

    return (struct store_plan){
        .passes = n,
        .pipeline = n ? store_fingerprint(l, n) : 0,
        /* Replaced tables have no slots: the next start builds. */
        .build = wanted && l->snapshot->state != FOUND_RELOCATED,
        .outdated = wanted && l->snapshot->state == FOUND_RELOCATED,
        .learns = may && learn,
        .lock = -1,
    };
}

static const char as_is[] = "libraries lie where the kernel puts them: placement is as-is, or no room is near the executable";

static __attribute__((noreturn)) void say_checked(struct loader *l, size_t n, int applied)
{
    const char *why = *l->refusal        ? l->refusal
                      : l->knobs->watcher ? l->knobs->watcher
                      : !n               ? STORE_NOTHING
                      : !l->arena->end    ? as_is
                                         : "there is none for these passes and options";

    if (applied && l->later->folder)
        store_end(l, "", l->later->folder, 0);
    store_end(l, STORE_REFUSAL, why, 1);
}

/* The passes need not run, or not as if there were no snapshots. */
static void spare(struct loader *l, size_t n, int plain)
{
    if (l->snapshot->state == FOUND_APPLIED)
        pipeline_applied(l->pipeline, l->image, n);
    else if (l->snapshot->state == FOUND_LEFT) /* relocations that passes would read are not the files' */
        pipeline_leave(l->pipeline, n, "its snapshot is in part there, and does not fit");
    else if (plain && !l->knobs->snapshot)
        pipeline_leave(l->pipeline, n, "there is no snapshot (on-miss = plain)");
}

size_t store_begin(struct loader *l)
{
    const char *miss = pipeline_setting(l->pipeline, "on-miss");
    struct store_plan plan = plan_images(l, miss);
    const char *watcher = rimf_auditor(l->image);
    int plain = rimf_streq(miss, "plain");
    size_t n = plan.passes;

    if (watcher && plan.build && l->knobs->snapshot)
        store_end(l, STORE_REFUSAL, watcher, 1);
    if (watcher)
        plan.build = plan.outdated = plan.learns = 0;
    if (l->knobs->snapshot && n && !plan.build)
        store_end(l, STORE_REFUSAL, as_is, 1);
    if (n && may_apply(l))
        apply(l, &plan);
    if (l->knobs->check)
        say_checked(l, n, l->snapshot->state == FOUND_APPLIED);
    if (l->caller->deferred)
        caller_finish(l);
    if (l->snapshot->state == FOUND_APPLIED)
        plan.build = plan.outdated = 0;
    if (plan.build | plan.outdated)
        store_lock(l, &plan);
    if (plan.outdated)
        store_remove_old(l, &plan);
    if (l->snapshot->state < FOUND_APPLIED && !plain) {
        store_complete(l);
        n = pipeline_count(l->pipeline) ? n : 0;
    }
    spare(l, n, plain);
    return plan.build ? store_record(l, &plan, n) : 0;
}

/* A request for a snapshot, or for a check only, must not start the program. */
void store_or_exit(struct loader *l)
{
    if (!l->knobs->check && (!l->knobs->snapshot || l->later->folder))
        return;
    if (!l->pipeline)
        store_end(l, STORE_REFUSAL, *l->refusal ? l->refusal : "no pass is configured for this program", 1);
    if (!l->hooked)
        store_end(l, STORE_REFUSAL, "the host loader could not be hooked", 1);
    if (l->started)
        store_end(l, STORE_REFUSAL, *l->refusal ? l->refusal : "no pass did what a snapshot can hold", 1);
}
