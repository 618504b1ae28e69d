/* SPDX-License-Identifier: MIT
 *
 * rimf/store/write_later.c: adds objects of dlopen to a LATER manifest, after passes have changed them and
 * before any of their code runs.
 *
 * If an object's changes cannot be described (a word points to an object without a number), it gets no
 * overlay, and the others are still added; but if another process may describe them, the object is left to
 * that one.  If a file cannot be written, none of them is added.
 */
#include "rimf/store/writer.h"

#include "rimf/base/base.h"
#include "rimf/moved/moved.h"

#include <errno.h> /* numbers only */

#define NEW_FILE MANIFEST_LATER ".new"

struct learning {
    struct writer w;
    struct manifest_file known; /* the existing one; or an empty one */
    struct manifest_header none;
    uint32_t user;
    const struct mvld_object *const *came;
    struct rimf_object **added; /* of these */
    size_t n_came, n;
};

/* ---- which --------------------------------------------------------------------------- */

static int overlaps(const struct mvld_image *image, const struct manifest *known,
                    const struct mvld_object *object)
{
    for (uint32_t i = 0; i < known->header->n_objects; i++) {
        uintptr_t at = rimf_later_place(image, known, known->header->n_base + i);

        if (object->start < at + known->objects[i].length && at < object->end)
            return 1;
    }
    return 0;
}

static int is_known(const struct learning *l, const struct rimf_object *object)
{
    return manifest_find(&l->known.view, &object->file.id) >= 0;
}

/* Why no process can learn it, or NULL. */
static const char *unlearnable(const struct learning *l, struct rimf_object *object)
{
    if (!object->file.known)
        return "from which file it was mapped is not known";
    if (object->public.flags & (MVLD_OBJECT_UNPLACED | MVLD_OBJECT_OPAQUE))
        return "it lies where it will not lie again";
    return writer_unsettled(l->w.image, object);
}

static int is_among(const struct mvld_object *const *objects, size_t n, const struct mvld_object *it)
{
    size_t i = 0;

    while (i < n && objects[i] != it)
        i++;
    return i < n;
}

/* A word of the object points to one that has no number here, because another process learnt it first, or
 * tried to, but may have one there.  Of the new objects, this one and all from `index` on are still to be
 * checked. */
static int leads_to_unlearnt(const struct learning *l, const struct rimf_object *object, size_t index)
{
    const struct mvld_image *image = l->w.image;

    for (size_t i = 0; i < image->watch->owners.n; i++) {
        const struct mvld_object *to = image->watch->owners.at[i] == (uintptr_t)object
            ? rimf_object_find(image, moved_word(image, image->watch->words.at[i])) : NULL;
        struct rimf_object *it = to ? (struct rimf_object *)rimf_object_of(to) : NULL;

        if (it && !it->number && !is_among(l->came + index, l->n_came - index, to) &&
            (!unlearnable(l, it) || is_known(l, it)))
            return 1;
    }
    return 0;
}

/* Why the object is not added, or NULL. */
static const char *unfit(const struct learning *l, struct rimf_object *object, size_t index)
{
    const char *why = unlearnable(l, object);

    if (why)
        return why;
    if (object->number || is_known(l, object))
        return "it is known";
    if (overlaps(l->w.image, &l->known.view, &object->public))
        return "another one has its place";
    return leads_to_unlearnt(l, object, index) ? "it calls one that was not learnt here" : NULL;
}

/* Chooses the objects to add, and their numbers.  Dependencies come first (loader/store/later.c). */
static void choose(struct learning *l)
{
    const struct manifest_header *h = l->known.view.header;
    uint32_t number = h->n_base + h->n_objects;

    for (size_t i = 0; i < l->n_came; i++) {
        struct rimf_object *object = (struct rimf_object *)rimf_object_of(l->came[i]);
        const char *why = unfit(l, object, i);

        if (!why && h->n_objects + l->n >= MANIFEST_OBJECTS_MAX)
            why = "there are too many";
        if (why) {
            rimf_log(l->w.image->log, MVLD_LOG_FILES, "later: %s: not learnt: %s",
                     object->public.name, why);
            continue;
        }
        object->number = ++number;
        l->added[l->n++] = object;
    }
}

/* ---- what changed ------------------------------------------------------------------------ */

static int add_words(struct writer *w, const struct rimf_object *object)
{
    struct mvld_image *image = w->image;
    const struct rimf_watch *watch = image->watch;
    struct rimf_word_list words = {.at = NULL};
    int error = 0;

    for (size_t i = 0; i < watch->owners.n && !error; i++)
        if (watch->owners.at[i] == (uintptr_t)object)
            error = rimf_words_add(image, &words, watch->words.at[i]);
    rimf_words_sort(&words);
    for (size_t i = 0; i < words.n && !error; i++)
        error = writer_word(w, words.at[i], moved_word(image, words.at[i]));
    rimf_heap_release(&image->heap, words.at);
    return error;
}

/* Code with jumps to the loader must not be mapped over such code (the loader's caller/hooks.c). */
static int is_kept_original(const struct mvld_image *image, const struct mvld_object *object)
{
    for (unsigned i = 0; i < RIMF_KEPT_ORIGINALS; i++)
        if (image->feeder.kept[i].at - object->start < object->end - object->start)
            return 1;
    return 0;
}

static int add(struct learning *l, struct rimf_object *object)
{
    struct writer *w = &l->w;
    struct manifest_object *entry = writer_object(w, object);
    uint32_t words = w->header->n_words;
    int error = 0;

    if (object->code.changed && !object->moved && !is_kept_original(w->image, &object->public) &&
        !add_words(w, object)) {
        entry->n_words = w->header->n_words - words;
        writer_name_overlay(w, entry, object->number - 1, object);
        error = write_overlay(w, object, object->number - 1, w->names + entry->overlay_name);
    } else { /* nothing to store, its code moved, or its dependencies are unknown */
        w->header->n_words = words;
    }
    rimf_log(w->image->log, MVLD_LOG_FILES, "later: %s: %s", object->public.name,
             error                 ? "not learnt: it cannot be written"
             : entry->overlay_name ? "learnt"
                                   : "learnt, without code");
    return error;
}

/* ---- the file --------------------------------------------------------------------------------- */

/* Allocates for the existing ones, which come first, and for the new ones, at most. */
static int make_room(struct learning *l)
{
    struct writer *w = &l->w;
    const struct manifest_header *old = l->known.view.header;

    for (int i = 0; i < MANIFEST_TABLES; i++)
        w->room[i] = old->n[i];
    w->room[MANIFEST_OBJECTS] += l->n;
    w->room[MANIFEST_WORDS] += w->image->watch->owners.n;
    for (size_t i = 0; i < l->n; i++) {
        w->room[MANIFEST_TEXTS] += l->added[i]->public.phnum;
        w->room[MANIFEST_NAMES] += rimf_strlen(l->added[i]->public.name) + MANIFEST_NAME_MAX + 2;
    }
    if (writer_open(w))
        return -ENOMEM;
    for (int i = 0; i < MANIFEST_TABLES; i++)
        memcpy(w->at[i], l->known.view.at[i], (size_t)old->n[i] * manifest_sizes[i]);
    memcpy(w->header->n, old->n, sizeof old->n);
    w->header->base = w->image->start.checksum;
    w->header->n_base = w->image->start.n;
    return 0;
}

static int write_file(struct writer *w)
{
    const struct rimf_sys *sys = w->image->sys;
    int error = cache_write(sys, w->folder, NEW_FILE, w->header, writer_close(w));

    if (!error)
        error = (int)SYS6(sys, SYS_renameat, w->folder, NEW_FILE, w->folder, MANIFEST_LATER, 0, 0);
    return error ? rimf_fail(w->image, -error, "the list of later objects cannot be written "
                             "(error %d)", -error)
                 : 0;
}

/* Whether a file of the folder is in neither manifest. */
static int is_unlisted(const void *cookie, const char *name)
{
    const struct manifest_header *header = cookie;
    uint32_t number = 0;
    const char *rest = name;

    for (; *rest >= '0' && *rest <= '9' && number < 2 * MANIFEST_OBJECTS_MAX; rest++)
        number = 10 * number + (uint32_t)(*rest - '0');
    return rest > name ? *rest == '-' && number >= header->n_base + header->n_objects
                       : rimf_streq(name, NEW_FILE);
}

static void sweep(const struct learning *l)
{
    cache_sweep(l->w.image->sys, l->w.folder, is_unlisted, l->known.view.header);
}

/* ---- all of it ------------------------------------------------------------------------------------ */

/* Checks that the folder is still that of this process's manifest, and reads what others have learnt. */
static int look_at_folder(struct learning *l)
{
    const struct mvld_image *image = l->w.image;
    const struct rimf_sys *sys = image->sys;
    struct manifest_header start;
    const char *why;
    struct stat st;
    long fd = cache_open(sys, l->w.folder, MANIFEST_FILE, S_IFREG, l->user, &st, &why), n;
    int error;

    if (sys_failed(fd))
        return rimf_fail(l->w.image, (int)-fd, "the manifest: %s", why);
    n = sys_pread(sys, (int)fd, &start, sizeof start, 0);
    sys_close(sys, (int)fd);
    if (n != (long)sizeof start || start.checksum != image->start.checksum)
        return rimf_fail(l->w.image, ESTALE, "the manifest there is another one now");
    error = manifest_map(&l->known, sys, l->w.folder, MANIFEST_LATER, l->user, &why);
    if (error && error != -ENOENT)
        return rimf_fail(l->w.image, -error, "the list of later objects: %s", why);
    if (error)
        l->known.view = (struct manifest){.header = &l->none, .names = ""};
    else if (!rimf_later_fits(image, &l->known.view))
        return rimf_fail(l->w.image, ESTALE, "the list of later objects is of another manifest");
    return 0;
}

static long learn(struct learning *l)
{
    int error;

    choose(l);
    if (!l->n)
        return 0;
    sweep(l); /* the rest of a killed one */
    error = make_room(l);
    for (size_t i = 0; i < l->n && !error; i++)
        error = add(l, l->added[i]);
    if (!error)
        error = write_finish_overlays(&l->w, l->known.view.header->n_objects);
    if (!error)
        error = write_file(&l->w);
    if (error)
        sweep(l);
    for (size_t i = 0; i < l->n && error; i++) /* as if it had not been tried */
        l->added[i]->number = 0;
    return error ? error : (long)l->n;
}

long rimf_later_write(struct mvld_image *image, int folder, uint32_t user, const struct mvld_object *const *came,
                      size_t n, const char *refusal)
{
    struct learning l = {.w = {.image = image, .folder = folder}, .user = user, .came = came, .n_came = n,
                         .known = {.folder = -1}, .none = {.n_base = image->start.n, .names_size = 1}};
    long result = -ENOMEM;

    l.w.base = image->start.base;
    l.added = rimf_heap_alloc(&image->heap, n * sizeof *l.added);
    if (!l.added || !image->watch || image->watch->incomplete || !image->start.n)
        rimf_fail(image, ENOMEM, "there was no memory to note what the passes did");
    else if (refusal)
        result = rimf_fail(image, EAGAIN, "%s", refusal);
    else if (!(result = look_at_folder(&l)))
        result = learn(&l);
    l.known.folder = -1; /* owned by the caller */
    manifest_unmap(&l.known, image->sys);
    writer_release(&l.w);
    rimf_heap_release(&image->heap, l.added);
    return result;
}
