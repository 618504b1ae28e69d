/* SPDX-License-Identifier: MIT
 *
 * loader/store/folder.c: the folders of this start: of its manifest, and of analyses.
 *
 * A folder is named after the program, the plan, and whatever else decides where words are bound: a program
 * may run with LD_BIND_NOW or LD_PRELOAD one time and without it the next, or under RLIMIT_AS, where
 * concat's library is left out.  With one folder, each start would refuse and replace the other's snapshot.
 *
 * The number of values of LD_PRELOAD is unlimited: some tools write a library for each process.  So for
 * such starts only `mvld build' makes a first snapshot; on-miss only renews it.
 */
#include "loader/store/private.h"

#include "loader/manager/pipeline.h"
#include "loader/place/place.h"
#include "loader/process/process.h"
#include "loader/store/store.h"
#include "rimf/base/cache.h"
#include "rimf/elf/headers.h"
#include "rimf/image/image.h"
#include "rimf/store/manifest.h"

/* Appends, with a space between; `to` NULL: returns the additional length. */
static size_t say(char *to, size_t n, const char *name, const char *value)
{
    size_t more = (n > 0) + rimf_strlen(name) + rimf_strlen(value);

    if (to)
        rimf_format(to + n, more + 1, "%s%s%s", n ? " " : "", name, value);
    return more;
}

static int has_preload(const struct loader *l)
{
    return l->knobs->preload && *rimf_after(l->knobs->preload, "LD_PRELOAD=");
}

static int has_option(const struct loader *l)
{
    return l->knobs->preload_option && *l->knobs->preload_option;
}

/* Always in this order, whatever the environment's.  Libraries that we add do not matter: they follow from
 * the plan. */
static size_t say_launch_key(const struct loader *l, char *to)
{
    const char *value;
    size_t n = 0;

    if (l->knobs->bind_now)
        n += say(to, n, "LD_BIND_NOW=1", ""); /* with any value */
    for (char **e = l->block->envp; l->knobs->tunables && *e; e++)
        if ((value = rimf_after(*e, "GLIBC_TUNABLES=")) && *value)
            n += say(to, n, *e, "");
    if (has_preload(l))
        n += say(to, n, l->knobs->preload, "");
    if (has_option(l))
        n += say(to, n, "--preload ", l->knobs->preload_option);
    return n;
}

const char *store_launch_key(struct loader *l)
{
    size_t n = say_launch_key(l, NULL);
    char *text = n ? rimf_heap_alloc(&l->heap, n + 1) : NULL;

    if (text)
        say_launch_key(l, text);
    return text;
}

int store_preloads(const struct loader *l)
{
    return has_preload(l) || has_option(l);
}

int store_leaves_out(struct loader *l)
{
    return pipeline_flags(l->pipeline) & MVLD_PASS_MOVES &&
           (l->block->secure || space_is_limited(l));
}

uint64_t store_fingerprint(struct loader *l, size_t n)
{
    static const char left_out[] = "no library that takes much address space";
    uint64_t key = pipeline_fingerprint(l->pipeline, n);

    if (l->snapshot->launch_key)
        key ^= rimf_hash(l->snapshot->launch_key, rimf_strlen(l->snapshot->launch_key));
    return store_leaves_out(l) ? key ^ rimf_hash(left_out, sizeof left_out) : key;
}

/* The program, the plan, and the kind of start: if the loader is run directly, the executable is among its
 * libraries. */
static void add_key(const struct loader *l, struct store_place *place, uint64_t pipeline)
{
    size_t n = rimf_strlen(place->folder);

    n += rimf_format(place->folder + n, STORE_PLACE_MAX - n, "/%016lx-%016lx%s",
                     rimf_hash(l->program, rimf_strlen(l->program)), pipeline,
                     l->direct ? "-direct" : "");
    if (n >= STORE_PLACE_MAX)
        place->folder[0] = '\0';
}

void store_system_place(const struct loader *l, struct store_place *place, uint64_t pipeline)
{
    *place = (struct store_place){.folder = MANIFEST_SYSTEM_FOLDER};
    add_key(l, place, pipeline);
}

void store_user_place(struct loader *l, struct store_place *place, uint64_t pipeline)
{
    *place = (struct store_place){.user = caches_user(l)};
    if (caches_folder(l, "snapshots", place->folder, STORE_PLACE_MAX))
        add_key(l, place, pipeline);
    else
        place->folder[0] = '\0';
}

void store_new_place(struct loader *l, struct store_place *place, uint64_t pipeline)
{
    if (caches_own(l))
        store_user_place(l, place, pipeline);
    else
        store_system_place(l, place, pipeline);
}

extern const Elf64_Ehdr __ehdr_start RIMF_HIDDEN;

uint64_t store_made_by(uint64_t pipeline)
{
    size_t size;
    const uint8_t *own = elf_head_note(&__ehdr_start, RIMF_PAGE, "GNU", NT_GNU_BUILD_ID, &size);

    return own ? pipeline ^ rimf_hash(own, size) : pipeline;
}

/* ---- distances ------------------------------------------------------------------------------- */

/* Chooses the number that determines distances between objects (place/place.c): the
 * one of this process's snapshot, or a new one, which a snapshot made by this process gets, too.
 */

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

/* ---- analyses -------------------------------------------------------------------------------- */

/* The folders of analyses, which `mvld analyze` writes.  Root's folder is for everybody, the user's own for that
 * user; rimf/base/cache.h has the rules of trust.  Under AT_SECURE there is only root's.
 */

#define FOLDER_SIZE 1024

/* Called before the pipeline runs: gives the paths to the image, which keeps them for later objects.  A
 * start from a snapshot needs no analysis, so whether others can change the user's path is checked at the
 * first look-up. */
void analysis_start(struct loader *l)
{
    struct rimf_feeder *feeder = rimf_image_feeder(l->image);
    char folder[FOLDER_SIZE], *copy;

    if (!(pipeline_flags(l->pipeline) & MVLD_PASS_ANALYSIS))
        return;
    copy = caches_name(l, "analysis", folder, sizeof folder) ? rimf_heap_copy(&l->heap, folder) : NULL;
    feeder->analyses[0] = (struct analysis_place){.folder = ANALYSIS_SYSTEM_FOLDER};
    feeder->analyses[1] = (struct analysis_place){.folder = copy, .user = caches_user(l)};
    feeder->n_analyses = copy ? 2 : 1;
    feeder->is_steered = copy ? caches_steered : NULL;
    feeder->auditor = l->knobs->watcher;
}
