/* SPDX-License-Identifier: MIT
 *
 * rimf/image/watch.c: for an image that will be stored: which objects passes changed, and which words they
 * relied on (depends).
 *
 * The stored code contains distances.  So an object whose distance to the others varies is marked for
 * passes (MVLD_OBJECT_UNPLACED) and not stored: one at a fixed address, because the arena of the libraries
 * is random, the vDSO, and those that the loader knows of (rimf_image_set_unplaced).
 */
#include "rimf/image/private.h"

#include "rimf/base/base.h"

#include <errno.h> /* numbers only */

#define WORDS_AT_FIRST 1024u

void rimf_image_watch(struct mvld_image *image)
{
    const struct rimf_table *table;

    if (!image->watch)
        image->watch = rimf_heap_alloc(&image->heap, sizeof *image->watch);
    if (!image->watch)
        return;
    table = rimf_table_enter(image);
    for (size_t i = 0; i < table->n_objects; i++)
        if (!table->objects[i]->public.bias || table->objects[i]->public.flags & MVLD_OBJECT_VDSO)
            table->objects[i]->public.flags |= MVLD_OBJECT_UNPLACED;
    rimf_table_leave(image);
}

void rimf_image_watch_end(struct mvld_image *image)
{
    const struct rimf_table *table = rimf_table_enter(image);

    for (size_t i = 0; i < table->n_objects; i++)
        table->objects[i]->public.flags &= ~MVLD_OBJECT_UNPLACED;
    rimf_table_leave(image);
    if (image->watch) {
        rimf_heap_release(&image->heap, image->watch->words);
        rimf_heap_release(&image->heap, image->watch->owners);
        rimf_heap_release(&image->heap, image->watch->pointers);
    }
    rimf_heap_release(&image->heap, image->watch);
    image->watch = NULL;
}

void rimf_image_set_unplaced(const struct mvld_object *object)
{
    ((struct rimf_object *)rimf_object_of(object))->public.flags |= MVLD_OBJECT_UNPLACED;
}

int rimf_words_add(struct mvld_image *image, uintptr_t **list, size_t *n, size_t *room,
                   uintptr_t word)
{
    if (!RIMF_ONE_MORE(&image->heap, *list, *n, *room, WORDS_AT_FIRST))
        return -ENOMEM;
    (*list)[(*n)++] = word;
    return 0;
}

int rimf_watch_word(struct mvld_image *image, uintptr_t word)
{
    struct rimf_watch *watch = image->watch;
    int error = rimf_words_add(image, &watch->words, &watch->n, &watch->room, word);

    watch->incomplete |= error != 0;
    return error;
}

void rimf_watch_pointer(struct mvld_image *image, uintptr_t word)
{
    struct rimf_watch *watch = image->watch;

    if (watch && !image->entered &&
        rimf_words_add(image, &watch->pointers, &watch->n_pointers, &watch->pointers_room, word))
        watch->incomplete = 1;
}

static int note_owner(struct mvld_image *image, const struct mvld_object *object)
{
    struct rimf_watch *watch = image->watch;
    int error = rimf_words_add(image, &watch->owners, &watch->n_owners, &watch->owners_room,
                               (uintptr_t)object);

    watch->incomplete |= error != 0;
    return error;
}

int rimf_depends(struct mvld_image *image, const struct mvld_object *object, uintptr_t word)
{
    int error;

    if (!image || !rimf_is_object(object))
        return -EINVAL;
    if (!image->watch)
        return 0;
    if (word % sizeof(uintptr_t))
        return -EINVAL;
    if (object->flags & MVLD_OBJECT_UNPLACED)
        return -ENOTSUP;
    ((struct rimf_object *)object)->code.changed = 1;
    error = word ? rimf_watch_word(image, word) : 0;
    return word && !error && image->start.n ? note_owner(image, object) : error;
}

size_t rimf_watch_sort(uintptr_t *a, size_t n)
{
    size_t kept = 0;

    rimf_sort(a, n, sizeof *a);
    for (size_t i = 0; i < n; i++)
        if (!kept || a[kept - 1] != a[i])
            a[kept++] = a[i];
    return kept;
}

size_t rimf_words_first(const uintptr_t *words, size_t n, uintptr_t start)
{
    return RIMF_BISECT(i, n, words[i] < start);
}

int rimf_watch_finish(struct mvld_image *image)
{
    struct rimf_watch *watch = image->watch;

    if (!watch || watch->incomplete)
        return -ENOMEM;
    watch->n = rimf_watch_sort(watch->words, watch->n);
    watch->n_pointers = rimf_watch_sort(watch->pointers, watch->n_pointers);
    return 0;
}
