/* SPDX-License-Identifier: MIT
 *
 * loader/store/analysis.c: the folders of analyses (`mvld analyze` writes them).
 *
 * Root's folder is for everybody, the user's own for that user; rimf/base/cache.h has the rules of trust.
 * Under AT_SECURE there is only root's.
 */
#include "loader/loader.h"

#include "loader/process/process.h"
#include "loader/store/store.h"
#include "rimf/image/image.h"
#include "loader/manager/pipeline.h"

#define FOLDER_SIZE 1024

static int is_steered(void *cookie, const char *folder)
{
    return caches_steered(cookie, folder);
}

/* Called before the pipeline runs: gives the paths to the image, which keeps them for later objects.  A
 * start from a snapshot needs no analysis, so whether others can change the user's path is checked at the
 * first look-up. */
void analysis_start(struct loader *l)
{
    struct analysis_place places[RIMF_ANALYSES_MAX] = {{.folder = ANALYSIS_SYSTEM_FOLDER}};
    char folder[FOLDER_SIZE], *copy;

    if (!(pipeline_flags(l->pipeline) & MVLD_PASS_ANALYSIS))
        return;
    copy = caches_name(l, "analysis", folder, sizeof folder) ? rimf_heap_copy(&l->heap, folder) : NULL;
    places[1] = (struct analysis_place){.folder = copy, .user = caches_user(l), .unasked = 1};
    rimf_image_feeder(l->image)->is_steered = is_steered;
    rimf_image_set_analyses(l->image, places, copy ? 2 : 1);
    rimf_image_set_auditor(l->image, l->knobs->watcher);
}
