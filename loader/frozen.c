/* SPDX-License-Identifier: MIT
 *
 * loader/frozen.c: a program starts from a frozen image (rimf/frozen.h), or makes one.
 *
 * Images lie in folders named after the program and the plan, so a new one takes the
 * place of the old: root's in /var/cache/mvld/images, a user's own in the user's cache.
 * What happens without one, or with one that is out of date, [app] on-miss says:
 *
 *     plain       the program runs without these passes
 *     transform   they run in this process, as if there were no images (the default)
 *     build       they do, and what they did is written for the next process
 *
 * MVLD_FREEZE=1 (`mvld build`) writes and exits: no constructor of the program runs.
 *
 * A new image is written to a folder of its own and renamed into place whole.
 */
#include "loader.h"

#include "frozen.h"
#include "image.h"
#include "pipeline.h"

#include <errno.h>    /* numbers only */
#include <fcntl.h>    /* numbers only */

#define PATH 1024
#ifndef RENAME_EXCHANGE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE 2
#endif

struct frozen_place {
    char folder[PATH]; /* "" when there is none */
    uint32_t user;     /* besides root's, files of this user */
};

/* ---- where ------------------------------------------------------------------------ */

/* The program, the plan, and the way it was started: run directly, the executable lies
 * among its libraries. */
static void add_key(const struct loader *l, struct frozen_place *place, uint64_t pipeline)
{
    size_t n = rimf_strlen(place->folder);

    n += rimf_format(place->folder + n, PATH - n, "/%016lx-%016lx%s",
                     sidecar_hash(l->program, rimf_strlen(l->program)), pipeline,
                     l->direct ? "-direct" : "");
    if (n >= PATH)
        place->folder[0] = '\0';
}

static void system_place(const struct loader *l, struct frozen_place *place, uint64_t pipeline)
{
    *place = (struct frozen_place){.folder = FROZEN_SYSTEM_FOLDER};
    add_key(l, place, pipeline);
}

static void user_place(const struct loader *l, struct frozen_place *place, uint64_t pipeline)
{
    *place = (struct frozen_place){.user = caches_user(l)};
    if (caches_folder(l, "images", place->folder, PATH))
        add_key(l, place, pipeline);
    else
        place->folder[0] = '\0';
}

/* Where a new one goes.  Root writes for everybody, but where told otherwise. */
static void new_place(const struct loader *l, struct frozen_place *place, uint64_t pipeline)
{
    if (caches_user(l) || caches_chosen(l))
        user_place(l, place, pipeline);
    else
        system_place(l, place, pipeline);
}

/* ---- by whom ------------------------------------------------------------------------ */

extern const Elf64_Ehdr __ehdr_start RIMF_HIDDEN;

/* Frozen code leads to what another mvld would have put elsewhere (the stubs of answers.c),
 * so an image is of this very build, too. */
static uint64_t made_by(uint64_t pipeline)
{
    const char *file = (const char *)&__ehdr_start;
    const Elf64_Phdr *ph = (const Elf64_Phdr *)(file + __ehdr_start.e_phoff);
    struct identity own = {NULL, 0};

    for (size_t i = 0; i < __ehdr_start.e_phnum; i++)
        if (ph[i].p_type == PT_NOTE)
            find_build_id(file + ph[i].p_vaddr, ph[i].p_memsz, &own);
    return own.build_id ? pipeline ^ sidecar_hash(own.build_id, own.size) : pipeline;
}

/* ---- thawing ----------------------------------------------------------------------- */

static void say_apart(const struct loader *l, const struct frozen *frozen)
{
    for (uint32_t i = 0; i < frozen->header->n_objects; i++)
        if (frozen->objects[i].flags & FROZEN_APART && frozen->objects[i].file.inode)
            rimf_log(&l->log, MVLD_LOG_FILES, "image: %s: left plain: it lies elsewhere each time",
                     frozen->names + frozen->objects[i].name);
}

static int thaw_from(struct loader *l, const struct frozen_place *place, uint64_t pipeline)
{
    const struct mvld_object *object = NULL;
    struct frozen_file file;
    const char *why;
    long texts = place->folder[0] ? frozen_map(&file, l->sys, place->folder, place->user, &why)
                                  : -ENOENT;

    if (texts == -ENOENT)
        return 0;
    if (!texts) {
        texts = rimf_image_thaw(l->image, &file, made_by(pipeline), &why, &object);
        if (texts >= 0)
            say_apart(l, &file.view);
        frozen_unmap(&file, l->sys);
    }
    if (texts < 0)
        rimf_log(&l->log, MVLD_LOG_FILES, "image %s: not thawed: %s%s%s", place->folder,
                 object ? object->name : "", object ? ": " : "", why);
    else
        rimf_log(&l->log, MVLD_LOG_FILES, "image %s: thawed, the code of %ld segments",
                 place->folder, texts);
    return texts >= 0;
}

static int thaw(struct loader *l, uint64_t pipeline)
{
    struct frozen_place place;

    system_place(l, &place, pipeline);
    if (thaw_from(l, &place, pipeline))
        return 1;
    user_place(l, &place, pipeline);
    return thaw_from(l, &place, pipeline);
}

/* ---- freezing ----------------------------------------------------------------------- */

/* …/CACHE/mvld/images/KEY: the folders from CACHE on that are not there.  What lies above
 * is not ours to make, least of all in the bare root of a sandbox.  Errors show later. */
static void make_folders(const struct loader *l, char *path)
{
    char *slash[3];
    size_t n = 0;

    for (char *at = path + rimf_strlen(path); at > path && n < RIMF_COUNT(slash);)
        if (*--at == '/')
            slash[n++] = at;
    while (n-- > 0) {
        *slash[n] = '\0';
        SYS3(l->sys, SYS_mkdirat, AT_FDCWD, path, 0755);
        *slash[n] = '/';
    }
}

/* Whole, in one step; the old one goes. */
static int put_in_place(struct loader *l, const struct frozen_place *place, const char *new)
{
    const char *why;
    long error = SYS6(l->sys, SYS_renameat2, AT_FDCWD, new, AT_FDCWD, place->folder,
                      RENAME_NOREPLACE, 0);

    if (error == -EEXIST) {
        error = SYS6(l->sys, SYS_renameat2, AT_FDCWD, new, AT_FDCWD, place->folder,
                     RENAME_EXCHANGE, 0);
        if (!error && frozen_remove(l->sys, new, place->user, &why))
            rimf_log(&l->log, MVLD_LOG_FILES, "image %s: the old one stays: %s", new, why);
    }
    return (int)error;
}

static int freeze(struct loader *l, uint64_t pipeline, char *said, size_t size)
{
    struct frozen_place place;
    char new[PATH + 16];
    const char *why;
    int error;

    new_place(l, &place, pipeline);
    if (!place.folder[0]) {
        rimf_format(said, size, "this user has no folder for images (HOME, XDG_CACHE_HOME)");
        return -ENOENT;
    }
    make_folders(l, place.folder);
    rimf_format(new, sizeof new, "%s.%ld", place.folder, SYS3(l->sys, SYS_getpid, 0, 0, 0));
    error = rimf_image_freeze(l->image, new, made_by(pipeline));
    if (error) {
        rimf_format(said, size, "%s", rimf_api()->last_error(l->image));
        return error;
    }
    error = put_in_place(l, &place, new);
    if (error) {
        frozen_remove(l->sys, new, place.user, &why);
        rimf_format(said, size, "%s: it cannot be put there (error %d)", place.folder, -error);
    } else {
        rimf_format(said, size, "%s", place.folder);
    }
    return error;
}

static __attribute__((noreturn)) void end(struct loader *l, const char *before, const char *text,
                                          int status)
{
    size_t size = rimf_strlen(before) + rimf_strlen(text) + 2;
    char *line = rimf_heap_alloc(&l->heap, size);

    if (line)
        sys_write(l->sys, status ? 2 : 1, line, rimf_format(line, size, "%s%s\n", before, text));
    sys_exit(l->sys, status);
}

static void keep(struct loader *l, uint64_t pipeline)
{
    char *room = rimf_heap_alloc(&l->heap, 2 * PATH); /* too large for a small stack */
    const char *said = room ? room : "out of memory";
    int error = room ? freeze(l, pipeline, room, 2 * PATH) : -ENOMEM;

    rimf_log(&l->log, MVLD_LOG_FILES, "image: %s%s", error ? "not frozen: " : "frozen: ", said);
    if (l->knobs.freeze)
        end(l, error ? "mvld: not frozen: " : "", said, error ? 1 : 0);
    rimf_heap_release(&l->heap, room);
}

/* ---- what the pipeline does with it ----------------------------------------------------- */

/* Runs those passes of which a frozen image may hold the work, or spares them.  Who watches
 * calls would miss those that an image made direct. */
void frozen_run(struct loader *l)
{
    size_t n = l->program && !l->knobs.watcher ? pipeline_freezable(l->pipeline) : 0;
    const char *miss = pipeline_setting(l->pipeline, "on-miss");
    uint64_t pipeline = n ? pipeline_fingerprint(l->pipeline, n) : 0;
    /* Distances are the same each time only where we choose them.  Who starts a program with
     * more rights than their own does not make it write. */
    int build = n && l->arena.end && !l->block.secure &&
                (l->knobs.freeze || (miss && rimf_streq(miss, "build")));

    if (l->knobs.freeze && n && !build)
        end(l, "mvld: not frozen: ", "libraries lie where the kernel puts them (placement)", 1);
    if (n && l->arena.end && !l->knobs.freeze && thaw(l, pipeline)) {
        pipeline_thawed(l->pipeline, l->image, n);
        build = 0;
    } else if (miss && rimf_streq(miss, "plain") && !l->knobs.freeze) {
        pipeline_leave(l->pipeline, n, "there is no frozen image (on-miss = plain)");
    } else if (build) {
        rimf_image_watch(l->image);
    }
    if (!pipeline_run_first(l->pipeline, l->image, n) && build)
        keep(l, pipeline);
}

/* Whoever asked for an image, and for nothing else, must not get a running program. */
void frozen_or_exit(struct loader *l)
{
    if (!l->knobs.freeze)
        return;
    if (!l->pipeline)
        end(l, "mvld: not frozen: ", "no pass is configured for this program", 1);
    if (!l->hooked)
        end(l, "mvld: not frozen: ", "the host loader could not be hooked", 1);
    if (l->started)
        end(l, "mvld: not frozen: ", "no pass did what can be frozen", 1);
}
