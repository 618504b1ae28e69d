/* SPDX-License-Identifier: MIT
 *
 * loader/store/analysis.c: where the analyses of objects lie (`mvld analyze` writes them).
 *
 * Root's folder is for everybody, the user's own for that user; rimf/base/cache.h says which
 * files are taken.  Under AT_SECURE there is only root's.
 */
#include "loader/loader.h"

#include "loader/store/folder.h"
#include "rimf/image/image.h"
#include "loader/manager/pipeline.h"
#include "rimf/store/manifest.h"

#include <fcntl.h> /* numbers only */

#define FOLDER_SIZE 1024

/* Root's folder for WHAT, and the user's, if there is one; how many.  A start from a snapshot needs none of
 * them, so whether others steer the user's is asked by who does. */
static size_t find_places(struct loader *l, const char *system, const char *what,
                          struct analysis_place *places)
{
    char folder[FOLDER_SIZE], *copy;

    places[0] = (struct analysis_place){.folder = system};
    copy = caches_name(l, what, folder, sizeof folder) ? rimf_heap_copy(&l->heap, folder) : NULL;
    places[1] = (struct analysis_place){.folder = copy, .user = caches_user(l), .unasked = 1};
    return copy ? 2 : 1;
}

/* Written is where snapshots are.  Where nothing was, nothing is looked for; where a snapshot has been
 * found, most starts look for nothing anyway, and are spared that question. */
static void overlays_start(struct loader *l)
{
    struct analysis_place places[RIMF_ANALYSES_MAX];
    struct rimf_overlay_places overlays = {.made_by = store_made_by(0)};
    size_t n = find_places(l, OVERLAY_SYSTEM_FOLDER, OVERLAY_FOLDER, places);
    size_t written = (size_t)caches_own(l);

    if (written < n)
        overlays.written = places[written];
    for (size_t i = 0; i < n; i++)
        if (l->snapshot.folder ||
            !SYS6(l->sys, SYS_faccessat, AT_FDCWD, places[i].folder, 0 /* F_OK */, 0, 0, 0))
            overlays.places[overlays.n++] = places[i];
    rimf_image_set_overlays(l->image, &overlays);
}

static int is_steered(void *cookie, const char *folder)
{
    return caches_steered(cookie, folder);
}

/* Before the pipeline runs: tells the snapshot, which keeps the paths, as objects come later. */
void analysis_start(struct loader *l)
{
    struct analysis_place places[RIMF_ANALYSES_MAX];
    size_t n;

    if (!(pipeline_flags(l->pipeline) & MVLD_PASS_ANALYSIS))
        return;
    n = find_places(l, ANALYSIS_SYSTEM_FOLDER, "analysis", places);
    rimf_image_set_steered(l->image, is_steered, l);
    rimf_image_set_analyses(l->image, places, n);
    rimf_image_set_auditor(l->image, l->knobs.watcher);
    overlays_start(l);
}
