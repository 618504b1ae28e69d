/* SPDX-License-Identifier: MIT
 *
 * rimf/store/apply_start.c: maps the overlays of a program's start over the image's objects, all or none.
 *
 * Everything is compared before anything is mapped, and all files are open by then.
 */
#include "rimf/store/apply.h"

#include "rimf/base/base.h"
#include "rimf/moved/moved.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

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
    const uintptr_t *biases = a->file->early.biases;

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
    if (!error && a->m->region)
        error = apply_compare_moved(a);
    if (!error)
        error = apply_compare_words(a, a->m->words, h->n_words);
    if (!error && a->m->region)
        error = apply_compare_pointers(a);
    if (!error && rimf_image_is_traced(a->image))
        error = apply_refuse(a, NULL, "a debugger may have breakpoints in the code");
    return error;
}

/* ---- mapping ------------------------------------------------------------------ */

/* Returns 1 if all texts of that object are mapped. */
static int is_mapped(const struct applying *a, uint32_t object)
{
    uint32_t next = a->file->early.end_text;

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
        int wanted = !file_id_is_none(&a->m->objects[i].overlay) && !is_mapped(a, i);
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

int rimf_image_maps_over(const struct mvld_image *image, uintptr_t address)
{
    const struct applying *a = image->applying;

    for (uint32_t i = 0; a && i < a->m->header->n_texts; i++) {
        const struct manifest_text *text = &a->m->texts[i];

        if (address - (a->objects[text->object]->public.bias + text->linked) < text->size)
            return 1;
    }
    return 0;
}

/* Its code was the file's when this was written; and calls are direct, perhaps. */
static void note_code(const struct applying *a, uint32_t number)
{
    struct rimf_object *object = a->objects[number];

    object->code.known = object->code.calls_direct = 1;
    object->code.analysis = a->m->objects[number].analysis;
}

static void note_early(struct applying *a)
{
    for (uint32_t i = a->file->early.first_text; i < a->file->early.end_text; i++)
        note_code(a, a->m->texts[i].object);
    a->mapped = a->file->early.end_text - a->file->early.first_text;
}

static long map_snapshot(struct applying *a)
{
    long result = open_files(a);

    note_early(a);
    if (!result && a->m->region)
        result = apply_moved(a);
    if (!result)
        result = map_all(a);
    if (a->m->region)
        apply_end_pointers(a, result >= 0);
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
        result = map_snapshot(&a);
    if (result >= 0)
        rimf_later_start(image, table, a.m->objects, a.base, a.m->header->checksum);
    rimf_table_leave(image);
    *why = a.why;
    *object = a.object;
    return result;
}

/* ---- an overlay --------------------------------------------------------------------------------
 *
 * Checks whether an overlay's dependencies hold in this process, and maps its texts over
 * those of the object; manifest.h tells when that is right.
 */

int apply_refuse(struct applying *a, const struct rimf_object *object, const char *why)
{
    a->why = why;
    a->object = object ? &object->public : NULL;
    return -ESTALE;
}

/* ---- comparing -------------------------------------------------------------------- */

int apply_compare_file(struct applying *a, uint32_t number)
{
    const struct manifest_object *entry = manifest_object(a->m, number);
    const struct rimf_object *object = a->objects[number];

    if (!object->file.known)
        return apply_refuse(a, object, "its file is not known");
    if (!file_id_same(&object->file.id, &entry->file) ||
        manifest_build_id(&object->public) != entry->build_id)
        return apply_refuse(a, object, "its file is another one");
    return 0;
}

int apply_compare_texts(struct applying *a, uint32_t number)
{
    const struct rimf_object *object = a->objects[number];
    uint32_t n;

    for (const struct manifest_text *text = manifest_texts_of(a->m, number, &n); n--; text++)
        if (object->public.why || !object->public.phdr ||
            !overlay_is_text(object->public.phdr, object->public.phnum, text))
            return apply_refuse(a, object, "its code lies elsewhere");
    return 0;
}

static uintptr_t word_at(struct applying *a, uintptr_t address)
{
    if (a->image->moved)
        return moved_word(a->image, address);
    return a->m->region ? apply_original(a, *(const uintptr_t *)address) : *(const uintptr_t *)address;
}

int apply_compare_words(struct applying *a, const struct manifest_word *word, uint32_t n)
{
    uintptr_t readable = 0, room = 0; /* words that begin in the `room` bytes there are readable */

    for (; n--; word++) {
        const struct rimf_object *object = a->objects[word->object], *to = a->objects[word->to_object];
        uintptr_t address, expected;

        if (!object || !to)
            return apply_refuse(a, object, "an object that its calls lead to is not there");
        address = object->public.bias + word->linked;
        expected = to->public.bias + word->to_linked;
        if (address - readable >= room) {
            if (!elf_holds(&object->view, address, sizeof address, PROT_READ))
                return apply_refuse(a, object, "a word lies outside it");
            readable = address;
            room = elf_room(&object->view, address) - (sizeof address - 1);
        }
        if (word_at(a, address) != expected)
            return apply_refuse(a, object, "a call leads elsewhere");
    }
    return 0;
}

/* ---- mapping ---------------------------------------------------------------------- */

long apply_open(struct applying *a, uint32_t number)
{
    const struct manifest_object *entry = manifest_object(a->m, number);
    long fd = manifest_open_part(a->file, a->image->sys, a->m->names + entry->overlay_name, &entry->overlay,
                                 &a->why);

    if (sys_failed(fd))
        a->object = &a->objects[number]->public;
    return fd;
}

/* The kernel checks what may forbid it (no-exec mounts, security modules) before it removes the old mapping. */
int apply_texts(struct applying *a, uint32_t number, int fd)
{
    struct rimf_object *object = a->objects[number];
    uint32_t n, mapped = 0;
    const struct manifest_text *text = manifest_texts_of(a->m, number, &n);
    int error = manifest_map_texts(a->file, a->image->sys, object->public.bias, text, n, fd, &mapped);

    if (error)
        apply_refuse(a, object, "its overlay cannot be mapped");
    if (mapped)
        note_code(a, number);
    a->mapped += mapped;
    return error;
}
