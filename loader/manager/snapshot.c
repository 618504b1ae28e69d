/* SPDX-License-Identifier: MIT
 *
 * loader/manager/snapshot.c: the passes whose work a manifest holds.
 *
 * These are the first passes, as long as each declares that its effects can be kept (MVLD_PASS_FREEZES), or
 * is idle.  Later ones run in each process, on the applied code.  If all of them are idle, there is no work
 * to hold.
 */
#include "rimf/base/base.h"
#include "loader/config/config.h"
#include "loader/manager/private.h"

#include <errno.h>

size_t pipeline_in_snapshot(const struct pipeline *p)
{
    size_t n = 0, idle = 0;

    while (n < p->n && (p->passes[n].flags & MVLD_PASS_FREEZES))
        idle += p->passes[n++].status == PASS_IDLE;
    /* Symbols would get the snapshot's targets, not the pass's. */
    return idle < n && !pipeline_wants_symbols(p) ? n : 0;
}

static uint64_t more(uint64_t so_far, const char *text, size_t length)
{
    uint64_t pair[2] = {so_far, rimf_hash(text, length)};

    return rimf_hash(pair, sizeof pair);
}

static uint64_t more_name(uint64_t so_far, const char *name)
{
    return more(so_far, name, rimf_strlen(name));
}

/* The first n as configured: a start that looks for its snapshot does not know yet in which order they run. */
static const struct planned_pass *said_at(const struct pipeline *p, size_t n, size_t *said)
{
    for (; *said < p->n; ++*said)
        for (size_t i = 0; i < n; i++)
            if (p->passes[i].said == *said)
                return &p->passes[i];
    return NULL;
}

/* Hashes the files of these passes and their options as written, because only the passes know their
 * meaning; not where they were written.  Also the names of later passes if one of them looks at those. */
uint64_t pipeline_fingerprint(const struct pipeline *p, size_t n)
{
    const struct planned_pass *it;
    uint64_t hash = n;
    const struct config_entry *writers = config_find(&p->config, "app", "slot-writers");
    int ahead = 0;

    if (writers)
        hash = more(hash, writers->raw.at, writers->raw.length);
    for (size_t said = 0; (it = said_at(p, n, &said)); said++) {
        hash = more_name(hash, it->name) ^ file_id_key(&it->identity);
        for (const struct config_entry *e = p->config.entries; e; e = e->next)
            if (rimf_streq(e->section, it->name))
                hash = more(more_name(hash, e->key), e->raw.at, e->raw.length);
        ahead |= (it->flags & MVLD_PASS_MOVES) != 0;
    }
    for (size_t i = n; ahead && i < p->n; i++)
        hash = more_name(hash, p->passes[i].name);
    return hash;
}

/* By its options. */
static void add_reads(const struct pipeline *p, const struct planned_pass *it, struct rimf_start *start)
{
    struct rimf_read read;

    for (size_t i = 0; i < it->n_settings; i++) {
        /* A file that may not be looked at cannot be read either: then the pass reports it. */
        read.path = it->settings[i].text;
        if (options_is(it->pass, &it->settings[i], MVLD_OPTION_FILE) && read.path && *read.path &&
            manifest_read_of(p->sys, read.path, &read.file) && start->n_reads++ < MANIFEST_READS_MAX)
            start->reads[start->n_reads - 1] = read;
    }
}

void pipeline_makers(const struct pipeline *p, size_t n, struct rimf_start *start)
{
    for (size_t i = 0; i < n && n <= MANIFEST_PASSES_MAX; i++)
        start->makers[start->n_makers++] = (struct rimf_maker){p->passes[i].name, p->passes[i].path,
            p->passes[i].library, p->passes[i].flags, p->passes[i].identity};
    for (size_t i = 0; i < n; i++)
        if (p->passes[i].status != PASS_IDLE)
            add_reads(p, &p->passes[i], start);
}

/* ---- passes that are mapped only when they are needed ------------------------------------- */

/* At a start from a snapshot no pass has anything to do, but mapping one costs as much as mapping three
 * libraries' code.  The snapshot is found without them: by their names, files and settings.  It contains
 * what the start must know about each pass.  States:
 *
 *     LOOKED_AT   their paths and files are known
 *     KNOWN       there is a snapshot, so they were valid when it was made with the same files and
 *                 settings; its facts about them are used
 *     MAPPED      as without snapshots: none was applied, or an object of dlopen is not in it
 *
 * If a pass cannot be mapped when an object comes, the object is not changed, and the next one tries again.
 * If more than MANIFEST_PASSES_MAX are wanted, or the plan is to be printed, passes are mapped at once.
 */

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

int pipeline_map_late(struct pipeline *p)
{
    char text[512];
    struct why why = {text, sizeof text};
    int error = 0;

    for (size_t i = 0; i < p->n && !error; i++) {
        struct planned_pass *it = &p->passes[i];

        if (it->status == PASS_IDLE)
            continue;
        error = pipeline_map_pass(p, it, &why);
        if (!error)
            error = options_finish(&p->heap, it->pass, it->path, &p->config, &it->settings, &it->n_settings, &why);
    }
    for (size_t i = 0; i < p->n && error; i++) {
        pass_unmap(p->sys, &p->passes[i].object);
        p->passes[i].pass = NULL;
    }
    if (error) {
        rimf_log(&p->log, MVLD_LOG_WARNING, "mvld: %s: what comes now stays as it is", text);
        return -ECANCELED;
    }
    p->late = MAPPED;
    return 0;
}
