/* SPDX-License-Identifier: MIT
 *
 * loader/store/folder.c: the folder of this start's manifest.
 *
 * A folder is named after the program, the plan, and whatever else decides where words are bound: a program
 * may run with LD_BIND_NOW or LD_PRELOAD one time and without it the next, or under RLIMIT_AS, where
 * concat's library is left out.  With one folder, each start would refuse and replace the other's snapshot.
 *
 * The number of values of LD_PRELOAD is unlimited: some tools write a library for each process.  So for
 * such starts only `mvld build' makes a first snapshot; on-miss only renews it.
 */
#include "loader/store/folder.h"

#include "loader/process/block.h"
#include "loader/process/process.h"
#include "loader/store/store.h"
#include "rimf/base/cache.h"
#include "rimf/elf/headers.h"
#include "rimf/store/manifest.h"
#include "loader/manager/pipeline.h"

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

    for (char **e = l->block->envp; *e && !n; e++)
        if ((value = rimf_after(*e, "LD_BIND_NOW=")) && *value)
            n += say(to, n, "LD_BIND_NOW=1", ""); /* with any value */
    for (char **e = l->block->envp; *e; e++)
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
