/* SPDX-License-Identifier: MIT
 *
 * rimf/store/apply_start.c: maps the overlays of a program's start over the image's objects, all or none.
 *
 * Everything is compared before anything is mapped, and all files are open by then.
 */
#include "rimf/store/apply.h"

#include "rimf/base/base.h"
#include "rimf/moved/moved.h"

#include <errno.h> /* numbers only */

/* ---- comparing --------------------------------------------------------------- */

/* Returns 1 if the object has its recorded distance from the first placed one. */
static int is_in_place(struct applying *a, uint32_t i)
{
    const struct manifest_object *entry = &a->m->objects[i];
    uintptr_t bias = a->objects[i]->public.bias;

    if (entry->flags & MANIFEST_UNPLACED)
        return 1;
    if (!a->base)
        a->base = bias;
    return (int64_t)(bias - a->base) == entry->distance;
}

static int compare_object(struct applying *a, uint32_t i)
{
    const struct rimf_object *object = a->objects[i];
    const uintptr_t *biases = a->file->laid.biases;

    if (object->public.flags & MVLD_OBJECT_VDSO)
        return a->m->objects[i].file.inode ? apply_refuse(a, object, "another object stood here") : 0;
    /* Objects that were compared before relocation are still mapped there. */
    if (!biases && apply_compare_file(a, i))
        return -ESTALE;
    if ((biases && biases[i] != object->public.bias) || !is_in_place(a, i))
        return apply_refuse(a, object, "it lies elsewhere");
    return apply_compare_texts(a, i);
}

static int compare_objects(struct applying *a, uint32_t n_objects)
{
    uint32_t n = a->m->header->n_objects;

    for (uint32_t i = 0; i < n && i < n_objects; i++)
        if (compare_object(a, i))
            return -ESTALE;
    return n_objects == n ? 0 : apply_refuse(a, NULL, "more objects, or fewer, are loaded");
}

static int compare_start(struct applying *a, uint32_t n_objects, uint64_t made_by)
{
    const struct manifest_header *h = a->m->header;
    int error;

    if (h->made_by != made_by)
        return apply_refuse(a, NULL, "it was made by another pipeline, or another mvld");
    error = compare_objects(a, n_objects);
    if (!error)
        error = apply_compare_moved(a);
    if (!error)
        error = apply_compare_words(a, a->m->words, h->n_words);
    if (!error)
        error = apply_compare_pointers(a);
    if (!error && rimf_image_is_traced(a->image))
        error = apply_refuse(a, NULL, "a debugger may have breakpoints in the code");
    return error;
}

/* ---- mapping ------------------------------------------------------------------ */

/* Returns 1 if all texts of that object are mapped. */
static int is_laid(const struct applying *a, uint32_t object)
{
    uint32_t next = a->file->laid.end_text;

    return object && (next == a->m->header->n_texts || a->m->texts[next].object > object);
}

static int open_files(struct applying *a)
{
    uint32_t n = a->m->header->n_objects;

    a->files = rimf_heap_alloc(&a->image->heap, n * sizeof *a->files);
    if (!a->files) {
        a->why = "out of memory";
        return -ENOMEM;
    }
    memset(a->files, 0xff, n * sizeof *a->files);
    for (uint32_t i = 0; i < n; i++) {
        int wanted = !file_id_is_none(&a->m->objects[i].overlay) && !is_laid(a, i);
        long fd = wanted ? apply_open(a, i) : -1;

        if (wanted && sys_failed(fd))
            return (int)fd;
        a->files[i] = (int)fd;
    }
    return 0;
}

static void close_file(struct applying *a, uint32_t object)
{
    if (a->files[object] >= 0)
        sys_close(a->image->sys, a->files[object]);
    a->files[object] = -1;
}

static int map_texts(struct applying *a, uint32_t object)
{
    int error = a->files[object] >= 0 ? apply_texts(a, object, a->files[object]) : 0;

    if (error && a->mapped)
        rimf_log(a->image->log, a->m->region ? MVLD_LOG_WARNING : MVLD_LOG_FILES,
                 "%s: its code cannot be mapped from the snapshot: that of the file stays",
                 a->objects[object]->public.name);
    close_file(a, object);
    return error;
}

/* Without the first of them, the C library's, nothing may refer to moved code; without others, some results of
 * the unwinder are of moved code. */
int apply_caller_texts(struct applying *a)
{
    for (uint32_t i = 0; i < a->m->header->n_kept; i++) {
        int error = map_texts(a, a->m->kept[i].object);

        if (error && !a->mapped)
            return error;
    }
    return 0;
}

/* No text depends on another: if one cannot be mapped, the file's stays, and its calls work as before.  So
 * mapped ones stay, because passes would take them for the file's.  Once moved code is in force, functions of a
 * text that cannot be mapped run there until something refers to their originals. */
static long map_all(struct applying *a)
{
    for (uint32_t i = 0; i < a->m->header->n_objects; i++) {
        int error = map_texts(a, i);

        if (error && !a->mapped && !a->m->region)
            return error;
    }
    return a->mapped;
}

int rimf_image_lays_over(const struct mvld_image *image, uintptr_t address)
{
    const struct applying *a = image->applying;

    for (uint32_t i = 0; a && i < a->m->header->n_texts; i++) {
        const struct manifest_text *text = &a->m->texts[i];

        if (address - (a->objects[text->object]->public.bias + text->linked) < text->size)
            return 1;
    }
    return 0;
}

static void note_laid(struct applying *a)
{
    for (uint32_t i = a->file->laid.first_text; i < a->file->laid.end_text; i++) {
        struct rimf_object *object = a->objects[a->m->texts[i].object];

        object->code.known = object->code.calls_direct = 1;
    }
    a->mapped = a->file->laid.end_text - a->file->laid.first_text;
}

static long lay_over(struct applying *a)
{
    long result = open_files(a);

    note_laid(a);
    if (!result)
        result = apply_open_pointers(a);
    if (!result)
        result = apply_moved(a);
    if (!result)
        result = map_all(a);
    if (result >= 0)
        apply_write_pointers(a);
    moved_relro_close(a->image, a->table);
    for (uint32_t i = 0; a->files && i < a->m->header->n_objects; i++)
        close_file(a, i);
    rimf_heap_release(&a->image->heap, a->files);
    return result;
}

long rimf_manifest_apply(struct mvld_image *image, const struct manifest_file *file, uint64_t made_by,
                         const char **why, const struct mvld_object **object)
{
    const struct rimf_table *table = rimf_table_enter(image);
    struct applying a = {.image = image, .file = file, .m = &file->view, .objects = table->objects,
                         .table = table};
    long result = compare_start(&a, (uint32_t)table->n_objects, made_by);

    if (!result)
        result = lay_over(&a);
    if (result >= 0)
        rimf_later_start(image, table, a.m->objects, a.base, a.m->header->checksum);
    rimf_table_leave(image);
    *why = a.why;
    *object = a.object;
    return result;
}
