/* SPDX-License-Identifier: MIT
 *
 * rimf/store/apply_later.c: applies overlays to objects of dlopen at their recorded distances; manifest.h tells
 * when that is right.
 *
 * Objects of the image have their numbers, so that a word's object is found in whatever order they came.
 */
#include "rimf/store/apply.h"

#include "rimf/base/base.h"

#include <errno.h> /* numbers only */

/* An unplaced object has a number only at a fixed address: others are not learnt, since code with a distance to
 * them differs in each process. */
static int has_number(const struct rimf_object *object, const struct manifest_object *entry)
{
    return !(entry->flags & MANIFEST_UNPLACED) || !object->public.bias;
}

void rimf_later_start(struct mvld_image *image, const struct rimf_table *table,
                      const struct manifest_object *objects, uintptr_t base, uint64_t checksum)
{
    for (uint32_t i = 0; i < table->n_objects; i++)
        table->objects[i]->number = has_number(table->objects[i], &objects[i]) ? i + 1 : 0;
    image->start.base = base;
    image->start.checksum = checksum;
    image->start.n = base ? (uint32_t)table->n_objects : 0;
}

int rimf_later_fits(const struct mvld_image *image, const struct manifest *m)
{
    return image->start.n && m->header->n_base == image->start.n && m->header->base == image->start.checksum;
}

uintptr_t rimf_later_place(const struct mvld_image *image, const struct manifest *m, uint32_t number)
{
    const struct manifest_object *entry = manifest_object(m, number);

    return image->start.base + (uintptr_t)entry->distance + entry->first;
}

/* Gives the object its number if it is listed and at its recorded distance; returns 1 then. */
static int know(struct applying *a, struct rimf_object *object, struct rimf_object **numbered)
{
    long number = object->file.known ? manifest_find(a->m, &object->file.id) : -1;

    if (number < 0 || object->public.bias + manifest_object(a->m, (uint32_t)number)->first !=
                          rimf_later_place(a->image, a->m, (uint32_t)number))
        return 0;
    numbered[number] = object;
    if (apply_compare_file(a, (uint32_t)number)) {
        numbered[number] = NULL;
        return 0;
    }
    object->number = (uint32_t)number + 1;
    return 1;
}

/* The object's words, which follow those of earlier objects. */
static const struct manifest_word *words_of(const struct applying *a, uint32_t number)
{
    const struct manifest_word *words = a->m->words;

    for (uint32_t i = a->m->header->n_base; i < number; i++)
        words += manifest_object(a->m, i)->n_words;
    return words;
}

/* Returns 1 if its code is not its file's any more. */
static int apply(struct applying *a, struct rimf_object *object)
{
    uint32_t number = object->number - 1;
    const struct manifest_object *entry;
    long error;

    if (object->number <= a->m->header->n_base)
        return 0;
    entry = manifest_object(a->m, number);
    if (file_id_is_none(&entry->overlay))
        return 0;
    a->mapped = 0;
    error = apply_compare_texts(a, number);
    if (!error)
        error = apply_compare_words(a, words_of(a, number), entry->n_words);
    if (!error)
        error = apply_open(a, number);
    if (!sys_failed(error)) {
        int fd = (int)error;

        error = apply_texts(a, number, fd);
        sys_close(a->image->sys, fd);
    }
    if (error && !a->mapped)
        rimf_log(a->image->log, MVLD_LOG_FILES, "later: %s: not applied: %s", object->public.name, a->why);
    else
        rimf_log(a->image->log, MVLD_LOG_FILES, "later: %s: applied, the code of %ld segments",
                 object->public.name, a->mapped);
    return a->mapped > 0;
}

/* Numbers and objects; NULL: no memory. */
static struct rimf_object **number_all(struct mvld_image *image, const struct manifest *m)
{
    size_t n = m->header->n_base + m->header->n_objects;
    struct rimf_object **numbered = rimf_heap_alloc(&image->heap, n * sizeof *numbered);
    const struct rimf_table *table = rimf_table_enter(image);

    for (size_t i = 0; numbered && i < table->n_objects; i++)
        if (table->objects[i]->number && table->objects[i]->number <= n)
            numbered[table->objects[i]->number - 1] = table->objects[i];
    rimf_table_leave(image);
    return numbered;
}

size_t rimf_later_apply(struct mvld_image *image, const struct manifest_file *file,
                        const struct mvld_object *const *objects, size_t n, const struct mvld_object **rest)
{
    struct rimf_object **numbered = number_all(image, &file->view);
    struct applying a = {.image = image, .file = file, .m = &file->view, .objects = numbered};
    size_t n_rest = 0, known = 0;

    for (size_t i = 0; i < n && numbered; i++)
        known += (size_t)know(&a, (struct rimf_object *)rimf_object_of(objects[i]), numbered);
    if (known && rimf_image_is_traced(image)) {
        rimf_log(image->log, MVLD_LOG_FILES, "later: not applied: a debugger may have breakpoints in the code");
        known = 0;
    }
    for (size_t i = n; i-- > 0;)
        if (!known || !apply(&a, (struct rimf_object *)rimf_object_of(objects[i])))
            rest[n_rest++] = objects[i];
    rimf_heap_release(&image->heap, numbered);
    return n_rest;
}
