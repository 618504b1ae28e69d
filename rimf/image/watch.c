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
        rimf_heap_release(&image->heap, image->watch->words.at);
        rimf_heap_release(&image->heap, image->watch->owners.at);
        rimf_heap_release(&image->heap, image->watch->pointers.at);
    }
    rimf_heap_release(&image->heap, image->watch);
    image->watch = NULL;
}

void rimf_image_set_unplaced(const struct mvld_object *object)
{
    ((struct rimf_object *)rimf_object_of(object))->public.flags |= MVLD_OBJECT_UNPLACED;
}

/* ---- lists of addresses ----------------------------------------------------------------- */

int rimf_words_add(struct mvld_image *image, struct rimf_word_list *list, uintptr_t word)
{
    if (!RIMF_ONE_MORE(&image->heap, list->at, list->n, list->room, WORDS_AT_FIRST))
        return -ENOMEM;
    list->at[list->n++] = word;
    return 0;
}

void rimf_words_sort(struct rimf_word_list *list)
{
    size_t kept = 0;

    rimf_sort(list->at, list->n, sizeof *list->at);
    for (size_t i = 0; i < list->n; i++)
        if (!kept || list->at[kept - 1] != list->at[i])
            list->at[kept++] = list->at[i];
    list->n = kept;
}

size_t rimf_words_first(const struct rimf_word_list *list, uintptr_t start)
{
    return RIMF_BISECT(i, list->n, list->at[i] < start);
}

/* ---- what is recorded -------------------------------------------------------------------- */

static int note(struct mvld_image *image, struct rimf_word_list *list, uintptr_t word)
{
    int error = rimf_words_add(image, list, word);

    image->watch->incomplete |= error != 0;
    return error;
}

int rimf_watch_word(struct mvld_image *image, uintptr_t word)
{
    return note(image, &image->watch->words, word);
}

void rimf_watch_pointer(struct mvld_image *image, uintptr_t word)
{
    if (image->watch && !image->entered)
        note(image, &image->watch->pointers, word);
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
    return word && !error && image->start.n ? note(image, &image->watch->owners, (uintptr_t)object) : error;
}

int rimf_watch_finish(struct mvld_image *image)
{
    struct rimf_watch *watch = image->watch;

    if (!watch || watch->incomplete)
        return -ENOMEM;
    rimf_words_sort(&watch->words);
    rimf_words_sort(&watch->pointers);
    return 0;
}
