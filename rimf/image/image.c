/* SPDX-License-Identifier: MIT
 *
 * rimf/image/image.c: creates the image, updates it from the link map, destroys it.
 *
 * An update compares the feeder's sources with the present objects.  Nearly always nothing changed (the
 * host loader announces more than it does), or objects were appended or removed, and the others kept their
 * order.  So the search for a source begins behind the object of the source before it.  A new source is
 * compared with all objects: 2000 new ones take 30 ms.  Everything new is made before anything is published, so that
 * a failure changes nothing.
 *
 * The heap's lock is held throughout: it serialises updates, and costs one system call.  A fork in the
 * middle leaves the child the complete old or new table.
 */
#include "rimf/image/edits.h"

#include "rimf/base/base.h"
#include "rimf/base/status.h"

#include <errno.h> /* numbers only */

/* State of an update. */
struct update {
    struct mvld_image *image;
    const struct rimf_table *old;
    const struct rimf_source *sources;
    size_t n;
    struct rimf_object **objects, **added; /* n each */
    size_t n_objects, n_added, n_same;     /* n_same: length of the equal prefix */
    size_t next;                           /* where in the old table the next source is looked for first */
    void *memory;
};

static int same(const struct rimf_object *object, const struct rimf_source *source)
{
    return object->public.link_map == source->link_map && object->public.bias == source->bias &&
           object->dynamic == source->dynamic;
}

/* ---- comparing ---------------------------------------------------------------- */

/* The present object of a source, or one that was added for the same source; or NULL. */
static struct rimf_object *find_known(struct update *u, const struct rimf_source *source)
{
    for (size_t i = 0; i < u->old->n_objects; i++) {
        size_t at = (u->next + i) % u->old->n_objects;

        if (!same(u->old->objects[at], source))
            continue;
        u->next = at + 1;
        return u->old->objects[at];
    }
    for (size_t i = 0; i < u->n_added; i++)
        if (same(u->added[i], source))
            return u->added[i];
    return NULL;
}

/* The object of a source that is not at its old index. */
static int take_moved(struct update *u, const struct rimf_source *source)
{
    struct rimf_object *object = find_known(u, source);

    if (object && object->seen == u->image->updates)
        return 0; /* named twice */
    if (!object) {
        struct rimf_source whole = *source;

        if (u->image->feeder.describe)
            u->image->feeder.describe(u->image->feeder.cookie, &whole);
        object = rimf_object_create(u->image, &whole);
        if (!object)
            return -ENOMEM;
        object->born = u->image->updates;
        object->global = u->image->updates == 1;
        u->image->has_filter |= object->global && object->view.filter;
        u->added[u->n_added++] = object;
    }
    object->seen = u->image->updates;
    u->objects[u->n_objects++] = object;
    return 0;
}

static int compare_objects(struct update *u)
{
    for (; u->n_same < u->n && u->n_same < u->old->n_objects; u->n_same++) {
        struct rimf_object *object = u->old->objects[u->n_same];

        if (!same(object, &u->sources[u->n_same]))
            break;
        object->seen = u->image->updates;
    }
    if (u->n_same == u->n && u->n_same == u->old->n_objects)
        return 0;

    u->memory = rimf_heap_take(&u->image->heap, 2 * u->n * sizeof *u->objects);
    if (!u->memory)
        return -ENOMEM;
    u->objects = u->memory;
    u->added = u->objects + u->n;
    memcpy(u->objects, u->old->objects, u->n_same * sizeof *u->objects);
    u->n_objects = u->next = u->n_same;
    for (size_t i = u->n_same; i < u->n; i++)
        if (take_moved(u, &u->sources[i]))
            return -ENOMEM;
    return 1;
}

/* ---- publishing ---------------------------------------------------------------- */

/* The number of places that suffices: adjoining segments share one. */
static size_t count_places(const struct update *u)
{
    size_t n = u->old->n_places;

    for (size_t i = 0; i < u->n_added; i++)
        n += u->added[i]->view.n_segments;
    return n;
}

/* Allocates all memory first; after that nothing can fail. */
static int apply(struct update *u, struct rimf_change *out)
{
    struct mvld_image *image = u->image;
    size_t n_removed = u->old->n_objects - (u->n_objects - u->n_added), k = 0;
    struct rimf_table *table = rimf_table_create(image, u->n_objects, count_places(u));
    struct rimf_object **change =
        rimf_heap_take(&image->heap, (u->n_added + n_removed) * sizeof *change);

    if (!table || !change) {
        rimf_heap_give(&image->heap, table);
        rimf_heap_give(&image->heap, change);
        return -ENOMEM;
    }
    table->n_objects = u->n_objects;
    memcpy(table->objects, u->objects, u->n_objects * sizeof *u->objects);
    rimf_table_index(table, u->old, image->updates, u->added, u->n_added);
    memcpy(change, u->added, u->n_added * sizeof *change);
    for (size_t i = 0; i < u->old->n_objects; i++)
        if (u->old->objects[i]->seen != image->updates)
            change[u->n_added + k++] = u->old->objects[i];
    *out = (struct rimf_change){
        .added = (const struct mvld_object *const *)change,
        .n_added = u->n_added,
        .removed = (const struct mvld_object *const *)(change + u->n_added),
        .n_removed = n_removed,
    };
    image->change = change;
    for (size_t i = 0; i < n_removed; i++) {
        struct rimf_object *object = change[u->n_added + i];

        __atomic_store_n(&object->gone, 1, __ATOMIC_RELEASE);
        object->next_gone = image->gone;
        image->gone = object;
    }
    rimf_table_publish(image, table);
    return 0;
}

/* Frees the objects that the previous update removed, once no reader can use them. */
static void forget_gone(struct mvld_image *image)
{
    rimf_heap_give(&image->heap, image->change);
    image->change = NULL;
    if (__atomic_load_n(&image->readers, __ATOMIC_SEQ_CST))
        return;
    while (image->gone) {
        struct rimf_object *next = image->gone->next_gone;

        while (image->gone->edit) {
            struct rimf_edit *edit = image->gone->edit;

            image->gone->edit = edit->next;
            rimf_heap_give(&image->heap, edit);
        }
        rimf_heap_give(&image->heap, image->gone->slots);
        rimf_heap_give(&image->heap, image->gone->words);
        rimf_heap_give(&image->heap, image->gone->fragments);
        rimf_heap_give(&image->heap, image->gone);
        image->gone = next;
    }
}

int rimf_image_update(struct mvld_image *image, const struct rimf_source *sources, size_t n,
                      struct rimf_change *out)
{
    struct update u = {.image = image, .sources = sources, .n = n};
    int result = rimf_heap_enter(&image->heap);

    memset(out, 0, sizeof *out);
    if (result)
        return result;
    forget_gone(image);
    image->updates++;
    u.old = image->table;
    result = compare_objects(&u);
    if (result > 0)
        result = apply(&u, out);
    if (result < 0) {
        for (size_t i = 0; i < u.n_added; i++)
            rimf_heap_give(&image->heap, u.added[i]);
        if (!u.old->n_objects)
            image->updates--; /* the next one counts as the first */
    }
    rimf_heap_give(&image->heap, u.memory);
    rimf_heap_leave(&image->heap);
    return result;
}

/* ---- life ------------------------------------------------------------------------ */

void rimf_image_set_alone(struct mvld_image *image, int alone)
{
    rimf_heap_set_alone(&image->heap, alone);
}

int rimf_image_create(const struct rimf_sys *sys, const struct rimf_log *log,
                      struct mvld_image **out)
{
    struct rimf_heap heap;
    struct mvld_image *image;

    rimf_heap_init(&heap, sys); /* nobody else knows it: no lock needed */
    image = rimf_heap_take(&heap, sizeof *image);
    if (!image)
        return -ENOMEM;
    image->heap = heap; /* from here on the heap is in its own first chunk */
    image->sys = sys;
    image->log = log;
    image->table = rimf_table_create(image, 0, 0);
    if (!image->table) {
        rimf_heap_destroy(&image->heap);
        return -ENOMEM;
    }
    *out = image;
    return 0;
}

struct rimf_feeder *rimf_image_feeder(struct mvld_image *image)
{
    return &image->feeder;
}

int rimf_image_is_traced(const struct mvld_image *image)
{
    struct status status;

    return !image->feeder.untraced && (status_read(image->sys, image->heap.alone, &status) || status.traced);
}

const char *rimf_auditor(const struct mvld_image *image)
{
    const struct rimf_table *table = rimf_table_enter(image);
    const char *why = image ? image->feeder.auditor : NULL;

    for (size_t i = 0; i < table->n_objects && !why; i++) {
        if (!(table->objects[i]->public.flags & MVLD_OBJECT_MAIN))
            continue;
        if (table->objects[i]->view.audit)
            why = "the executable names an auditing library (DT_AUDIT)";
        break; /* the first kind, which is requested for each object */
    }
    rimf_table_leave(image);
    return why;
}

int rimf_image_has_region(const struct mvld_image *image)
{
    return image->moved != NULL;
}

void rimf_image_finish(struct mvld_image *image)
{
    image->finished = image->updates;
    image->entered = 1;
}

void rimf_image_destroy(struct mvld_image *image)
{
    if (!image)
        return;
    rimf_patch_forget(image);
    rimf_heap_destroy(&image->heap);
}
