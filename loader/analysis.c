/* SPDX-License-Identifier: MIT
 *
 * loader/analysis.c: where the analyses of objects lie (`mvld analyze` writes them), and
 * when calls must keep their way through PLT and GOT.
 *
 * Root's folder is for everybody, the user's own for that user; rimf/cache.h says which
 * files are taken.  Under AT_SECURE there is only root's.
 */
#include "loader.h"

#include "image.h"
#include "pipeline.h"

#define FOLDER_SIZE 1024

/* The sentence for a variable of the host loader's that lets somebody see calls pass
 * through the PLT, or changes how slots are bound; or NULL. */
const char *analysis_watcher(const char *setting)
{
    static const struct {
        const char *name, *why;
    } settings[] = {
        {"LD_AUDIT=", "an auditing library is loaded (LD_AUDIT)"},
        {"LD_PROFILE=", "calls are profiled (LD_PROFILE)"},
        {"LD_BIND_NOT=", "slots are not to be bound (LD_BIND_NOT)"},
        {"LD_DYNAMIC_WEAK=", "weak definitions are overridden (LD_DYNAMIC_WEAK)"},
    };

    for (size_t i = 0; i < RIMF_COUNT(settings); i++) {
        const char *value = rimf_after(setting, settings[i].name);

        if (value && *value)
            return settings[i].why;
    }
    return NULL;
}

/* The user's folder, or NULL.  The strings of the environment may go: it is copied. */
static const char *user_folder(struct loader *l)
{
    const char *xdg = NULL, *home = NULL, *rest;
    struct block now; /* in direct mode the host loader has moved it */
    char folder[FOLDER_SIZE], *copy;
    size_t n;

    if (l->block.secure)
        return NULL;
    block_read(&now, l->block.sp);
    for (char **e = now.envp; *e; e++) {
        if ((rest = rimf_after(*e, "XDG_CACHE_HOME=")))
            xdg = rest;
        else if ((rest = rimf_after(*e, "HOME=")))
            home = rest;
    }
    n = sidecar_user_folder(folder, sizeof folder, xdg, home);
    copy = n ? rimf_heap_alloc(&l->heap, n + 1) : NULL;
    if (copy)
        memcpy(copy, folder, n);
    return copy;
}

/* Before the pipeline runs: tells the image. */
void analysis_start(struct loader *l)
{
    struct sidecar_place places[RIMF_ANALYSES_MAX] = {{.folder = SIDECAR_SYSTEM_FOLDER}};
    size_t n = 1;

    if (!(pipeline_flags(l->pipeline) & MVLD_PASS_ANALYSIS))
        return;
    places[n].folder = user_folder(l);
    if (places[n].folder) {
        long user = SYS3(l->sys, SYS_geteuid, 0, 0, 0);

        places[n++].user = sys_failed(user) ? 0 : (uint32_t)user;
    }
    rimf_image_set_analyses(l->image, places, n);
    rimf_image_set_plt_watcher(l->image, l->knobs.watcher);
}
