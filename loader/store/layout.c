/* SPDX-License-Identifier: MIT
 *
 * loader/store/layout.c: chooses the number that determines distances between objects (place/draw.c): the
 * one of this process's snapshot, or a new one, which a snapshot made by this process gets, too.
 */
#include "loader/store/folder.h"

#include "loader/place/place.h"
#include "loader/process/process.h"
#include "loader/store/store.h"
#include "loader/manager/pipeline.h"

/* Root's snapshot that precedes the one that this process is to write. */
static int is_roots(struct loader *l, uint64_t *seed)
{
    size_t n = l->program ? pipeline_in_snapshot(l->pipeline) : 0;
    struct store_place place;
    struct manifest_file file;
    const char *why;

    if (!n || !caches_own(l))
        return 0;
    store_system_place(l, &place, store_fingerprint(l, n));
    if (manifest_map_start(&file, l->sys, place.folder, 0, &why))
        return 0;
    *seed = file.view.header->layout_seed;
    manifest_unmap(&file, l->sys);
    return 1;
}

/* A start tries root's snapshot and then the user's, when all objects are already mapped by root's number.
 * So a user's snapshot uses the number of root's, if there is one; an older one is reported (store.c, `mvld
 * doctor') as not fitting.  A snapshot of another mvld does not matter. */
static int is_images(struct loader *l, uint64_t *seed)
{
    const struct found_snapshot *found = l->snapshot;

    if (!found->folder)
        return l->knobs->snapshot == SNAPSHOT_START && is_roots(l, seed);
    *seed = found->file.view.header->layout_seed;
    return found->file.view.header->made_by == store_made_by(found->pipeline) ||
           (!found->is_users && caches_own(l));
}

void layout_choose(struct loader *l)
{
    const char *from = "the snapshot's";

    if (!l->arena->end)
        return;
    if (!is_images(l, &l->arena->layout_seed)) {
        from = "drawn";
        l->arena->layout_seed = 0;
        if (!l->filtered->on && place_is_random(l))
            place_random(l, &l->arena->layout_seed);
    }
    if (!l->arena->layout_seed)
        from = "none but their lengths";
    else
        place_loosen(l->arena);
    rimf_log(&l->log, MVLD_LOG_FILES, "placement: distances: %s", from);
}
