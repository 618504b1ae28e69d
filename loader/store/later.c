/* SPDX-License-Identifier: MIT
 *
 * loader/store/later.c: objects of dlopen in a program with a manifest get their learnt addresses and code
 * (rimf/store/manifest.h).
 *
 * Nothing is read before the first dlopen.  Then the list is mapped, and remains mapped; the folder is
 * opened anew for each dlopen, because the program may close descriptors that it did not open.  Objects
 * that are not listed, and those whose address is occupied, are mapped below or above the addresses of all
 * listed ones.
 */
#include "loader/loader.h"

#include "loader/place/place.h"
#include "loader/process/process.h"
#include "loader/store/store.h"
#include "rimf/base/cache.h"
#include "rimf/image/image.h"

#include <errno.h> /* numbers only */
#include <fcntl.h> /* numbers only */

/* The program starts from the manifest in `folder`, which holds the work of so many passes. */
void later_start(struct loader *l, const char *folder, uint32_t user, size_t passes, int learns)
{
    char *kept = rimf_heap_copy(&l->heap, folder);

    if (!kept)
        return;
    *l->later = (struct later_objects){.folder = kept, .user = user, .passes = passes};
    if (learns)
        l->later->learner = SYS3(l->sys, SYS_getpid, 0, 0, 0);
}

static long open_folder(const struct loader *l)
{
    const char *why;
    struct stat st;

    return cache_open(l->sys, AT_FDCWD, l->later->folder, S_IFDIR, l->later->user, &st, &why);
}

/* ---- where ---------------------------------------------------------------------------- */

static int is_in_arena(const struct loader *l, uintptr_t at, size_t length)
{
    return at >= l->arena->start && at < l->arena->end && length <= l->arena->end - at;
}

/* Excludes the addresses of expected objects for others. */
static void keep_places(struct loader *l)
{
    const struct manifest *list = &l->later->file.view;

    for (uint32_t i = 0; i < list->header->n_objects; i++) {
        uintptr_t at = rimf_later_place(l->image, list, list->header->n_base + i);

        if (is_in_arena(l, at, list->objects[i].length))
            place_keep(l->arena, at, list->objects[i].length);
    }
}

/* The folder's descriptor is new for each dlopen. */
static void forget_list(struct loader *l)
{
    l->later->file.folder = -1;
    manifest_unmap(&l->later->file, l->sys);
}

static void read_list(struct loader *l, int folder)
{
    const char *why;
    int error = manifest_map(&l->later->file, l->sys, folder, MANIFEST_LATER, l->later->user, &why);

    if (!error && !rimf_later_fits(l->image, &l->later->file.view)) {
        why = "it is of another snapshot";
        error = -ESTALE;
    }
    if (!error) {
        keep_places(l);
        return;
    }
    if (error != -ENOENT)
        rimf_log(&l->log, MVLD_LOG_FILES, "later: %s/" MANIFEST_LATER ": not used: %s",
                 l->later->folder, why);
    forget_list(l);
}

static const struct manifest *the_list(struct loader *l)
{
    if (l->later->folder && !l->later->looked) {
        long folder = open_folder(l);

        l->later->looked = 1;
        if (!sys_failed(folder)) {
            read_list(l, (int)folder);
            sys_close(l->sys, (int)folder);
        }
    }
    return l->later->file.map ? &l->later->file.view : NULL;
}

/* The learnt address of the object in this file, or 0. */
uintptr_t later_place(struct loader *l, int fd, size_t length)
{
    const struct manifest *list = fd >= 0 ? the_list(l) : NULL;
    struct file_id identity;
    struct stat st;
    uintptr_t at;
    long i;

    if (!list || SYS3(l->sys, SYS_fstat, fd, &st, 0))
        return 0;
    file_id_of(&identity, &st);
    i = manifest_find(list, &identity);
    if (i < 0)
        return 0;
    at = rimf_later_place(l->image, list, (uint32_t)i);
    return is_in_arena(l, at, length) ? at : 0;
}

/* ---- learning ------------------------------------------------------------------------- */

/* Adds each object to the list; passes that no snapshot holds are not restricted. */
static void watch(struct loader *l)
{
    const uint32_t elsewhere = MVLD_OBJECT_MAIN | MVLD_OBJECT_LOADER | MVLD_OBJECT_VDSO;

    rimf_image_watch(l->image);
    place_set_unplaced(l);
    for (size_t i = 0; i < rimf_api()->object_count(l->image); i++) {
        const struct mvld_object *object = rimf_api()->object_at(l->image, i);

        if (!(object->flags & elsewhere) && !is_in_arena(l, object->start, object->end - object->start))
            rimf_image_set_unplaced(object);
    }
}

static void begin_learning(struct loader *l, struct later_coming *c)
{
    c->learns = 1;
    c->refusal = "a filter of system calls is in force";
    c->lock = l->filtered->on ? -EPERM : caches_lock(l, l->later->folder, l->later->user, 0, &c->refusal);
    watch(l);
    if (!sys_failed(c->lock))
        rimf_image_will_write(l->image);
}

static void learn(struct loader *l, struct later_coming *c)
{
    long n;

    n = rimf_later_write(l->image, c->folder, l->later->user, c->rest, c->n_rest,
                         sys_failed(c->lock) ? c->refusal : NULL);
    rimf_image_watch_end(l->image);
    if (!sys_failed(c->lock))
        sys_close(l->sys, (int)c->lock);
    if (n < 0)
        rimf_log(&l->log, MVLD_LOG_FILES, "later: nothing learnt: %s",
                 rimf_api()->last_error(l->image));
    if (n > 0) {
        forget_list(l);
        read_list(l, c->folder);
    }
}

/* A child of fork does not learn. */
static int learns(const struct loader *l)
{
    return l->later->learner && l->later->learner == SYS3(l->sys, SYS_getpid, 0, 0, 0);
}

/* ---- from objects.c --------------------------------------------------------------------- */

void later_begin(struct loader *l, struct later_coming *c, const struct mvld_object *const *objects, size_t n,
                 int unentered)
{
    *c = (struct later_coming){.rest = objects, .n_rest = n, .folder = -1};
    if (!l->later->folder || !unentered || !(the_list(l) || learns(l)))
        return;
    c->own = rimf_heap_alloc(&l->heap, n * sizeof *c->own);
    c->folder = c->own ? (int)open_folder(l) : -1;
    if (c->folder < 0)
        return;
    c->rest = c->own;
    c->n_rest = 0;
    if (the_list(l)) {
        l->later->file.folder = c->folder;
        l->later->file.filtered = l->filtered->on;
        c->n_rest = rimf_later_apply(l->image, &l->later->file, objects, n, c->own);
    }
    for (size_t i = n; !the_list(l) && i-- > 0;) /* dependencies come after their users */
        c->own[c->n_rest++] = objects[i];
    if (c->n_rest && learns(l))
        begin_learning(l, c);
}

void later_end(struct loader *l, struct later_coming *c)
{
    if (c->learns)
        learn(l, c);
    if (c->folder >= 0)
        sys_close(l->sys, c->folder);
    rimf_heap_release(&l->heap, c->own);
}
