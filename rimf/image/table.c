/* SPDX-License-Identifier: MIT
 *
 * rimf/image/table.c: all objects, in the order of the link map and by address.
 *
 * The index by address has segments, not objects: an object may have a hole between two segments, with
 * another one in it.
 */
#include "rimf/image/private.h"

#include "rimf/base/base.h"
#include "rimf/base/sort.h"

const struct rimf_table *rimf_table_enter(const struct mvld_image *image)
{
    static const struct rimf_table nothing;
    struct mvld_image *counted = (struct mvld_image *)image;

    if (!image) /* called by a pass */
        return &nothing;
    __atomic_add_fetch(&counted->readers, 1, __ATOMIC_SEQ_CST);
    return __atomic_load_n(&counted->table, __ATOMIC_SEQ_CST);
}

void rimf_table_leave(const struct mvld_image *image)
{
    struct mvld_image *counted = (struct mvld_image *)image;

    if (image)
        __atomic_sub_fetch(&counted->readers, 1, __ATOMIC_SEQ_CST);
}

struct rimf_table *rimf_table_create(struct mvld_image *image, size_t n, size_t places)
{
    struct rimf_table *table =
        rimf_heap_take(&image->heap, sizeof *table + n * sizeof *table->objects +
                                          places * sizeof *table->places);

    if (!table)
        return NULL;
    table->objects = (struct rimf_object **)(table + 1);
    table->places = (struct rimf_place *)(table->objects + n);
    return table;
}

/* The new places are sorted at the end of the array and merged from there to its
 * beginning; a merged place never overtakes a new one that is still unread. */
void rimf_table_index(struct rimf_table *table, const struct rimf_table *old, uint64_t update,
                      struct rimf_object *const *added, size_t n_added)
{
    size_t n_new = 0, n_old = 0, from = 0, to = 0;
    struct rimf_place *fresh;

    for (size_t i = 0; i < n_added; i++)
        n_new += added[i]->view.n_segments;
    for (size_t i = 0; i < old->n_places; i++)
        n_old += old->places[i].object->seen == update;
    table->n_places = n_old + n_new;
    fresh = table->places + n_old;
    for (size_t i = 0, k = 0; i < n_added; i++) {
        const struct elf_view *view = &added[i]->view;

        for (size_t s = 0; s < view->n_segments; s++)
            fresh[k++] =
                (struct rimf_place){view->segments[s].start, view->segments[s].end, added[i]};
    }
    rimf_sort(fresh, n_new, sizeof *table->places);
    for (size_t i = 0; i < old->n_places; i++) {
        if (old->places[i].object->seen != update)
            continue;
        while (from < n_new && fresh[from].start < old->places[i].start)
            table->places[to++] = fresh[from++];
        table->places[to++] = old->places[i];
    }
    while (from < n_new)
        table->places[to++] = fresh[from++];
}

const struct rimf_place *rimf_table_find(const struct rimf_table *table, uintptr_t address)
{
    size_t begun = RIMF_BISECT(i, table->n_places, table->places[i].start <= address);

    return begun && address < table->places[begun - 1].end ? &table->places[begun - 1] : NULL;
}

const struct mvld_object *const *rimf_image_objects(const struct mvld_image *image, size_t *n)
{
    const struct rimf_table *table = rimf_table_enter(image);
    const struct mvld_object *const *objects = (const struct mvld_object *const *)table->objects;

    *n = table->n_objects;
    rimf_table_leave(image); /* the updater itself reads */
    return objects;
}

void rimf_table_publish(struct mvld_image *image, struct rimf_table *table)
{
    struct rimf_table *old = image->table;

    __atomic_store_n(&image->table, table, __ATOMIC_SEQ_CST);
    old->next_retired = image->retired;
    image->retired = old;
    /* Later readers find the new table. */
    if (__atomic_load_n(&image->readers, __ATOMIC_SEQ_CST))
        return;
    while (image->retired) {
        struct rimf_table *next = image->retired->next_retired;

        rimf_heap_give(&image->heap, image->retired);
        image->retired = next;
    }
}
