/* SPDX-License-Identifier: MIT
 *
 * rimf/store/learn.c: adds objects that came by dlopen to those that a frozen image
 * foresees (later.h), as passes have just left them and before any of their code runs.
 *
 * What cannot be said of an object's changes (a word that leads to an object without a
 * number) leaves it without frozen code, and the others are added all the same; but where another
 * process may say it, the object is left to that one.  When a file cannot be written, none of them is.
 */
#include "rimf/store/freeze.h"
#include "rimf/store/later_private.h"

#include "rimf/base/base.h"
#include "rimf/base/cache.h"
#include "rimf/moved/moved.h"

#include <errno.h>    /* numbers only */
#include <fcntl.h>    /* numbers only */

#define NEW_FILE LATER_FILE ".new"

/* ---- which --------------------------------------------------------------------------- */

static int overlaps(const struct mvld_image *image, const struct later *later,
                    const struct mvld_object *object)
{
    for (uint32_t i = 0; i < later->header->n_objects; i++) {
        uintptr_t at = rimf_later_place(image, later, i);

        if (object->start < at + later->objects[i].length && at < object->end)
            return 1;
    }
    return 0;
}

static int is_known(const struct learn *l, const struct rimf_object *object)
{
    return rimf_later_find(l->known, &object->identity) >= 0;
}

/* Why no process learns it, or NULL. */
static const char *unlearnable(const struct learn *l, const struct rimf_object *object)
{
    const char *why;

    if (!object->identified)
        return "from which file it was mapped is not known";
    if (object->public.flags & (MVLD_OBJECT_UNPLACED | MVLD_OBJECT_OPAQUE))
        return "it lies where it will not lie again";
    why = file_id_unsettled(l->image->sys, &object->identity, object->public.name);
    return why || !object->moved ? why : learn_copy_unfit(l, object);
}

static int is_among(const struct mvld_object *const *objects, size_t n, const struct mvld_object *it)
{
    size_t i = 0;

    while (i < n && objects[i] != it)
        i++;
    return i < n;
}

/* A word of the object leads to one that has no number here, for another process learnt it first, or was at
 * it, but may have one elsewhere.  Of those that came this one and all from `index` on are still to be asked. */
static int leads_to_unlearnt(const struct learn *l, const struct rimf_object *object, size_t index)
{
    size_t n = rimf_watch_words(l->image->watch, &object->public, NULL);
    uintptr_t *words = rimf_heap_alloc(&l->image->heap, n * sizeof *words);
    int found = 0;

    n = words ? rimf_watch_words(l->image->watch, &object->public, words) : 0;
    for (size_t i = 0; i < n && !found; i++) {
        const struct mvld_object *to = rimf_object_find(l->image, moved_word(l->image, words[i]));
        const struct rimf_object *it = to ? rimf_object_of(to) : NULL;

        found = it && !it->number && !is_among(l->came + index, l->n_came - index, to) &&
                (!unlearnable(l, it) || is_known(l, it));
    }
    rimf_heap_release(&l->image->heap, words);
    return found;
}

/* Why the object is not added, or NULL. */
static const char *unfit(const struct learn *l, const struct rimf_object *object, size_t index)
{
    const char *why = unlearnable(l, object);

    if (why)
        return why;
    if (object->number || is_known(l, object))
        return "it is known";
    if (overlaps(l->image, l->known, &object->public))
        return "another one has its place";
    if (object->moved && learn_copy_overlaps(l, object))
        return "another one has the place of its copy";
    return leads_to_unlearnt(l, object, index) ? "it calls one that was not learnt here" : NULL;
}

/* Which are added, and their numbers.  Those that others depend on come first (loader/store/later.c). */
static void choose(struct learn *l)
{
    uint32_t number = l->image->n_start + l->known->header->n_objects;

    for (size_t i = 0; i < l->n_came; i++) {
        struct rimf_object *object = (struct rimf_object *)rimf_object_of(l->came[i]);
        const char *why = unfit(l, object, i);

        if (!why && number - l->image->n_start >= LATER_OBJECTS_MAX)
            why = "there are too many";
        if (why) {
            rimf_log(l->image->log, MVLD_LOG_FILES, "later: %s: not learnt: %s",
                     object->public.name, why);
            continue;
        }
        object->number = ++number;
        l->learnt[l->n++] = object;
    }
}

/* ---- what changed ------------------------------------------------------------------------ */

static int add_word(struct learn *l, uintptr_t address)
{
    uintptr_t value = moved_word(l->image, address);
    const struct mvld_object *in = rimf_object_find(l->image, address);
    const struct mvld_object *to = rimf_object_find(l->image, value);
    const struct rimf_object *a = in ? rimf_object_of(in) : NULL, *b = to ? rimf_object_of(to) : NULL;

    if (!a || !b || !a->number || !b->number ||
        address - in->bias > UINT32_MAX || value - to->bias > UINT32_MAX)
        return -ENOTSUP;
    l->words[l->header->n_words++] = (struct frozen_word){
        .object = a->number - 1,
        .linked = (uint32_t)(address - in->bias),
        .to_object = b->number - 1,
        .to_linked = (uint32_t)(value - to->bias),
    };
    return 0;
}

static int add_words(struct learn *l, const struct rimf_object *object)
{
    size_t n = rimf_watch_words(l->image->watch, &object->public, NULL);
    uintptr_t *words = rimf_heap_alloc(&l->image->heap, n * sizeof *words);
    int error = words ? 0 : -ENOMEM;

    if (words)
        n = rimf_watch_sort(words, rimf_watch_words(l->image->watch, &object->public, words));
    for (size_t i = 0; i < n && !error; i++)
        error = add_word(l, words[i]);
    rimf_heap_release(&l->image->heap, words);
    return error;
}

/* The changed file, and its texts, as if it were the only object of an image. */
static int add_copy(struct learn *l, struct later_object *entry, struct rimf_object *object)
{
    struct rimf_table alone = {.n_objects = 1, .objects = &object};
    struct frozen_header header = {.n_texts = 0};
    struct frozen_object as = {.copy_name = 0};
    struct freeze f = {.image = l->image, .table = &alone, .folder = l->folder,
                       .header = &header, .objects = &as,
                       .texts = l->texts + l->header->n_texts,
                       .names = l->names + entry->copy_name};
    int error = freeze_file(&f, 0);

    if (error)
        return error;
    for (uint32_t i = 0; i < header.n_texts; i++)
        f.texts[i].object = (uint32_t)(entry - l->objects);
    l->header->n_texts += header.n_texts;
    entry->n_texts = header.n_texts;
    entry->copy = as.copy;
    return 0;
}

uint32_t learn_name(struct learn *l, const char *name)
{
    uint32_t at = l->header->names_size;
    size_t size = rimf_strlen(name) + 1;

    memcpy(l->names + at, name, size);
    l->header->names_size += (uint32_t)size;
    return at;
}

static int add(struct learn *l, struct rimf_object *object)
{
    struct later_object *entry = &l->objects[l->header->n_objects++];
    uint32_t words = l->header->n_words;
    char name[FROZEN_NAME_MAX + 1];
    int error = 0;

    *entry = (struct later_object){
        .file = object->identity,
        .build_id = frozen_build_id(&object->public),
        .distance = (int64_t)(object->public.bias - l->image->start_base),
        .linked = rimf_page_down(object->public.start - object->public.bias),
        .name = learn_name(l, object->public.name),
    };
    entry->length = rimf_page_up(object->public.end - object->public.bias) - entry->linked;
    if (object->changed && !add_words(l, object)) {
        freeze_name(name, sizeof name, object->number - 1, object);
        entry->copy_name = learn_name(l, name);
        entry->n_words = l->header->n_words - words;
        error = add_copy(l, entry, object);
        if (!error && object->moved)
            error = learn_copy(l, entry, object);
    } else { /* nothing to keep, or it cannot be told what that relies on */
        l->header->n_words = words;
    }
    rimf_log(l->image->log, MVLD_LOG_FILES, "later: %s: %s", object->public.name,
             error               ? "not learnt: it cannot be written"
             : entry->copy_name ? "learnt"
                                : "learnt, without code");
    return error;
}

/* ---- the file --------------------------------------------------------------------------------- */

/* Room for what was there and for what comes, at most. */
static int make_room(struct learn *l)
{
    const struct later_header *old = l->known->header;
    size_t objects = old->n_objects + l->n, texts = old->n_texts, words = old->n_words,
           homes = old->n_homes, names = old->names_size + FROZEN_NAME_MAX + 1;

    for (size_t i = 0; i < l->n; i++) {
        const struct mvld_object *object = &l->learnt[i]->public;

        texts += object->phnum;
        words += rimf_watch_words(l->image->watch, object, NULL);
        names += rimf_strlen(object->name) + 2 * FROZEN_NAME_MAX + 3;
        if (l->learnt[i]->moved)
            homes += l->image->moved->list[l->learnt[i]->moved - 1].n_homes;
    }
    l->bytes = rimf_heap_alloc(&l->image->heap,
                               sizeof *l->header + objects * sizeof *l->objects +
                                   texts * sizeof *l->texts + words * sizeof *l->words +
                                   homes * sizeof *l->homes + names);
    if (!l->bytes)
        return rimf_fail(l->image, ENOMEM, "there is no memory to learn objects");
    l->header = (struct later_header *)l->bytes;
    l->objects = (struct later_object *)(l->header + 1);
    l->texts = (struct frozen_text *)(l->objects + objects);
    l->words = (struct frozen_word *)(l->texts + texts);
    l->homes = (struct analysis_home *)(l->words + words);
    l->names = (char *)(l->homes + homes);
    *l->header = *old;
    if (old->n_objects) {
        memcpy(l->objects, l->known->objects, old->n_objects * sizeof *l->objects);
        memcpy(l->texts, l->known->texts, old->n_texts * sizeof *l->texts);
        memcpy(l->words, l->known->words, old->n_words * sizeof *l->words);
        memcpy(l->homes, l->known->homes, old->n_homes * sizeof *l->homes);
        memcpy(l->names, l->known->names, old->names_size);
    }
    return 0;
}

static size_t close_gaps(struct learn *l)
{
    struct later_header *h = l->header;
    uint8_t *end = (uint8_t *)(l->objects + h->n_objects);

    end = freeze_pack(end, l->texts, h->n_texts * sizeof *l->texts);
    end = freeze_pack(end, l->words, h->n_words * sizeof *l->words);
    end = freeze_pack(end, l->homes, h->n_homes * sizeof *l->homes);
    end = freeze_pack(end, l->names, h->names_size);
    h->size = (uint64_t)(end - l->bytes);
    h->checksum = frozen_checksum(l->bytes, h->size);
    return h->size;
}

static int write_later(struct learn *l)
{
    const struct rimf_sys *sys = l->image->sys;
    int error;

    error = freeze_whole(sys, l->folder, NEW_FILE, l->bytes, close_gaps(l));
    if (!error)
        error = (int)SYS6(sys, SYS_renameat, l->folder, NEW_FILE, l->folder, LATER_FILE, 0, 0);
    return error ? rimf_fail(l->image, -error, "the list of later objects cannot be written "
                             "(error %d)", -error)
                 : 0;
}

/* Of a file in the folder: `later` does not list it, nor does the image. */
static int is_unlisted(const void *cookie, const char *name)
{
    const struct later *later = cookie;
    const struct later_header *header = later->header;
    uint32_t number = 0;
    const char *rest = name;

    for (; *rest >= '0' && *rest <= '9' && number < FROZEN_OBJECTS_MAX + LATER_OBJECTS_MAX; rest++)
        number = 10 * number + (uint32_t)(*rest - '0');
    if (rest > name)
        return *rest == '-' && number >= header->n_start + header->n_objects;
    return rimf_streq(name, NEW_FILE) ||
           (rimf_after(name, LATER_FILE "-table-") &&
            !(header->table.name && rimf_streq(name, later->names + header->table.name)));
}

static void sweep(const struct learn *l, const struct later *later)
{
    cache_sweep(l->image->sys, l->folder, is_unlisted, later);
}

/* As if it had not been tried. */
static void take_back(struct learn *l)
{
    sweep(l, l->known);
    for (size_t i = 0; i < l->n; i++)
        l->learnt[i]->number = 0;
}

/* ---- all of it ------------------------------------------------------------------------------------ */

/* The folder is still that of the image with which this process started, and what others
 * have learnt is known. */
static int look_at_folder(struct learn *l, uint32_t user, struct later_header *none)
{
    const struct rimf_sys *sys = l->image->sys;
    struct frozen_header image;
    const char *why;
    struct stat st;
    long fd = cache_open(sys, l->folder, "image", S_IFREG, user, &st, &why), n;
    int error;

    if (sys_failed(fd))
        return rimf_fail(l->image, (int)-fd, "the image: %s", why);
    n = sys_pread(sys, (int)fd, &image, sizeof image, 0);
    sys_close(sys, (int)fd);
    if (n != (long)sizeof image || image.checksum != l->image->start_checksum)
        return rimf_fail(l->image, ESTALE, "the image there is another one now");
    error = later_map(&l->old, sys, l->folder, user, &why);
    l->known = error ? l->known : &l->old.view;
    if (error && error != -ENOENT)
        return rimf_fail(l->image, -error, "the list of later objects: %s", why);
    if (error)
        *none = (struct later_header){.magic = LATER_MAGIC, .version = LATER_VERSION,
                                      .header_size = sizeof *none,
                                      .image = l->image->start_checksum,
                                      .n_start = l->image->n_start, .names_size = 1};
    else if (!rimf_later_fits(l->image, &l->old.view))
        return rimf_fail(l->image, ESTALE, "the list of later objects is of another image");
    return 0;
}

static long learn(struct learn *l)
{
    int error;

    choose(l);
    if (!l->n)
        return 0;
    sweep(l, l->known); /* what one has left that was killed */
    error = make_room(l);
    for (size_t i = 0; i < l->n && !error; i++)
        error = add(l, l->learnt[i]);
    if (!error)
        error = learn_table(l);
    if (!error)
        error = write_later(l);
    if (error && l->bytes)
        take_back(l);
    else if (!error)
        sweep(l, &(struct later){.header = l->header, .names = l->names}); /* the old table */
    rimf_heap_release(&l->image->heap, l->bytes);
    return error ? error : (long)l->n;
}

long rimf_image_learn(struct mvld_image *image, int folder, uint32_t user,
                      const struct mvld_object *const *came, size_t n, const char *refusal)
{
    struct later_header none;
    const struct later empty = {.header = &none, .names = ""};
    struct learn l = {.image = image, .folder = folder, .user = user, .known = &empty, .came = came, .n_came = n};
    long result = -ENOMEM;

    l.learnt = rimf_heap_alloc(&image->heap, n * sizeof *l.learnt);
    if (!l.learnt || !image->watch || image->watch->incomplete || !image->n_start)
        rimf_fail(image, ENOMEM, "there was no memory to note what the passes did");
    else if (refusal)
        result = rimf_fail(image, EAGAIN, "%s", refusal);
    else if (!(result = look_at_folder(&l, user, &none)))
        result = learn(&l);
    later_unmap(&l.old, image->sys);
    if (image->watch)
        image->watch->n = image->watch->n_owners = 0;
    rimf_heap_release(&image->heap, l.learnt);
    return result;
}
