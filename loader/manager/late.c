/* SPDX-License-Identifier: MIT
 *
 * loader/manager/late.c: maps passes only when they are needed.
 *
 * At a start from a snapshot no pass has anything to do, but mapping one costs as much as mapping three
 * libraries' code.  The snapshot is found without them: by their names, files and settings.  It contains
 * what the start must know about each pass.  States:
 *
 *     LOOKED_AT   their paths and files are known
 *     KNOWN       there is a snapshot, so they were valid when it was made with the same files and
 *                 settings; its facts about them are used
 *     MAPPED      as without snapshots: none was applied, or an object of dlopen is not in it
 *
 * If a pass cannot be mapped when an object comes, the object is not changed, and the next one tries again.
 * If anything is unusual, more than MANIFEST_PASSES_MAX are wanted, or the plan is to be printed, passes
 * are mapped at once.
 */
#include "rimf/base/base.h"
#include "loader/config/options.h"
#include "loader/manager/private.h"

#include <errno.h>

int pipeline_look(struct pipeline *p, const struct pipeline_query *q)
{
    struct ini_slice list = p->order->raw, element;
    size_t n = 0;

    if (!q->late || p->secure || p->musl || rimf_log_enabled(&p->log, MVLD_LOG_PASSES))
        return 0;
    while (ini_list_next(&list, &element)) {
        char *name = rimf_heap_copy_part(&p->heap, element.at, element.length);

        if (!name || n == MANIFEST_PASSES_MAX || !pipeline_look_for(p, name, &p->passes[n]))
            return 0;
        p->passes[n].said = n;
        n++;
    }
    p->late = LOOKED_AT;
    p->n = n;
    return 1;
}

int pipeline_is_late(const struct pipeline *p)
{
    return p->late != MAPPED;
}

static int know(struct pipeline *p, struct planned_pass *it, const struct manifest_pass *pass,
                const char *names)
{
    const char *library = names + pass->library;

    if (!rimf_streq(it->name, names + pass->name) || !(pass->flags & MVLD_PASS_FREEZES))
        return 0;
    it->flags = pass->flags;
    it->status = pass->flags & MANIFEST_IDLE ? PASS_IDLE : PASS_PLANNED;
    it->library = NULL;
    if (!*library)
        return 1;
    it->library = rimf_heap_copy(&p->heap, library);
    return it->library && *library == '/' && pipeline_is_there(p, library);
}

/* The snapshot has them in the order in which they run. */
static void take_place(struct pipeline *p, size_t i, const char *name)
{
    for (size_t j = i; j < p->n; j++)
        if (rimf_streq(p->passes[j].name, name)) {
            struct planned_pass other = p->passes[i];

            p->passes[i] = p->passes[j];
            p->passes[j] = other;
            return;
        }
}

int pipeline_know(struct pipeline *p, const struct manifest *snapshot)
{
    if (p->late != LOOKED_AT || snapshot->header->n_passes != p->n)
        return 0;
    for (size_t i = 0; i < p->n; i++) {
        const struct manifest_pass *pass = &snapshot->header->passes[i];

        take_place(p, i, snapshot->names + pass->name);
        if (!know(p, &p->passes[i], pass, snapshot->names))
            return 0;
    }
    p->late = KNOWN;
    return 1;
}

static int map_one(struct pipeline *p, struct planned_pass *it, const struct why *why)
{
    struct file_id before = it->identity;
    int mapped = pipeline_map_pass(p, it, why);

    if (mapped < 0)
        return mapped;
    if (!mapped || !file_id_same(&before, &it->identity))
        return refuse_at(why, ESTALE, it->path, 0, "the pass is not the one of the start");
    return options_finish(&p->heap, it->pass, it->path, &p->config, &it->settings,
                          &it->n_settings, why);
}

int pipeline_map_late(struct pipeline *p)
{
    char text[512];
    struct why why = {text, sizeof text};
    struct file_id identity[MANIFEST_PASSES_MAX];
    int error = 0;

    for (size_t i = 0; i < p->n; i++)
        identity[i] = p->passes[i].identity;
    for (size_t i = 0; i < p->n && !error; i++)
        if (p->passes[i].status != PASS_IDLE)
            error = map_one(p, &p->passes[i], &why);
    for (size_t i = 0; i < p->n && error; i++) {
        pass_unmap(p->sys, &p->passes[i].object);
        p->passes[i].pass = NULL;
        p->passes[i].identity = identity[i];
    }
    if (error) {
        rimf_log(&p->log, MVLD_LOG_WARNING, "mvld: %s: what comes now stays as it is", text);
        return -ECANCELED;
    }
    p->late = MAPPED;
    return 0;
}
