/* SPDX-License-Identifier: MIT
 *
 * rimf/store/thaw.c: lays a frozen image's code over the image's objects; when that
 * is right is told in frozen.h.
 *
 * Everything is compared before anything is mapped.  A traced process is left alone:
 * the debugger's breakpoints are in the text that would be covered.
 */
#include "rimf/store/thaw.h"

#include "rimf/base/base.h"
#include "rimf/base/cache.h"

#include <errno.h>    /* numbers only */
#include <fcntl.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

int thaw_refuse(struct thaw *t, const struct rimf_object *object, const char *why)
{
    t->why = why;
    t->object = object ? &object->public : NULL;
    return -ESTALE;
}

static const struct mvld_object *object_at(const struct thaw *t, uint32_t i)
{
    return &t->table->objects[i]->public;
}

/* ---- comparing --------------------------------------------------------------- */

/* 1 when the object lies where it lay, seen from the first that is not apart; and where it did before
 * relocation. */
static int is_in_place(struct thaw *t, uint32_t i)
{
    const uintptr_t *biases = t->file->laid.biases;
    uintptr_t bias = object_at(t, i)->bias;

    if (biases && biases[i] != bias)
        return 0;
    if (t->frozen->objects[i].flags & FROZEN_UNPLACED)
        return 1;
    if (!t->based) {
        t->base = bias;
        t->based = 1;
    }
    return (int64_t)(bias - t->base) == t->frozen->objects[i].distance;
}

static int compare_objects(struct thaw *t)
{
    uint32_t n = t->frozen->header->n_objects;

    for (uint32_t i = 0; i < n && i < t->table->n_objects; i++) {
        const struct frozen_object *frozen = &t->frozen->objects[i];
        const struct rimf_object *object = t->table->objects[i];

        if (object->public.flags & MVLD_OBJECT_VDSO) {
            if (frozen->file.inode)
                return thaw_refuse(t, object, "another object stood here");
            continue;
        }
        if (!object->identified)
            return thaw_refuse(t, object, "its file is not known");
        if (!file_id_same(&object->identity, &frozen->file) ||
            frozen_build_id(&object->public) != frozen->build_id)
            return thaw_refuse(t, object, "its file is another one");
        if (!is_in_place(t, i))
            return thaw_refuse(t, object, "it lies elsewhere");
    }
    return t->table->n_objects == n ? 0 : thaw_refuse(t, NULL, "more objects, or fewer, are loaded");
}

static const struct mvld_segment *segment_of(const struct mvld_object *object, uintptr_t address,
                                             size_t length)
{
    for (size_t i = 0; i < object->n_segments; i++)
        if (address >= object->segments[i].start && address < object->segments[i].end &&
            length <= object->segments[i].end - address)
            return &object->segments[i];
    return NULL;
}

static int compare_words(struct thaw *t)
{
    const struct mvld_segment *in = NULL;

    for (uint32_t i = 0; i < t->frozen->header->n_words; i++) {
        const struct frozen_word *word = &t->frozen->words[i];
        const struct mvld_object *object = object_at(t, word->object);
        uintptr_t address = object->bias + word->linked;
        uintptr_t expected = object_at(t, word->to_object)->bias + word->to_linked;

        if (!in || address < in->start || address >= in->end || in->end - address < sizeof address)
            in = segment_of(object, address, sizeof address);
        if (!in || !(in->prot & PROT_READ))
            return thaw_refuse(t, t->table->objects[word->object], "a word lies outside it");
        if (thaw_home(t, *(const uintptr_t *)address) != expected)
            return thaw_refuse(t, t->table->objects[word->object], "a call leads elsewhere");
    }
    return 0;
}

static int compare_texts(struct thaw *t)
{
    for (uint32_t i = 0; i < t->frozen->header->n_texts; i++) {
        const struct frozen_text *text = &t->frozen->texts[i];
        const struct rimf_object *object = t->table->objects[text->object];

        if (object->public.why || !thaw_is_text(object, text))
            return thaw_refuse(t, object, "its code lies elsewhere");
    }
    return 0;
}

static int compare(struct thaw *t, uint64_t pipeline)
{
    int error;

    if (t->frozen->header->pipeline != pipeline)
        return thaw_refuse(t, NULL, "it was made by another pipeline, or another mvld");
    error = compare_objects(t);
    if (!error)
        error = compare_texts(t);
    if (!error)
        error = thaw_compare_copies(t);
    if (!error)
        error = compare_words(t);
    return error ? error : thaw_compare_pointers(t);
}

/* ---- mapping ------------------------------------------------------------------ */

/* 1: nothing of that object's is left to be mapped. */
static int is_laid(const struct thaw *t, uint32_t object)
{
    uint32_t next = t->file->laid.end_text;

    return object && (next == t->frozen->header->n_texts || t->frozen->texts[next].object > object);
}

/* All that is needed is there before anything is mapped. */
static int open_files(struct thaw *t)
{
    uint32_t n = t->frozen->header->n_objects;

    t->files = rimf_heap_alloc(&t->image->heap, n * sizeof *t->files);
    if (!t->files) {
        t->why = "out of memory";
        return -ENOMEM;
    }
    memset(t->files, 0xff, n * sizeof *t->files);
    for (uint32_t i = 0; i < n; i++) {
        const char *name = t->frozen->names + t->frozen->objects[i].copy_name;
        int wanted = *name && !is_laid(t, i);
        long fd = wanted ? frozen_open_part(t->file, t->image->sys, name,
                                            &t->frozen->objects[i].copy, &t->why) : -1;

        if (wanted && sys_failed(fd)) {
            t->object = object_at(t, i);
            return (int)fd;
        }
        t->files[i] = (int)fd;
    }
    return 0;
}

static long map_text(struct thaw *t, const struct frozen_text *text)
{
    long at = frozen_map_text(t->image->sys, object_at(t, text->object)->bias, text,
                              t->files[text->object]);

    if (sys_failed(at)) {
        t->object = object_at(t, text->object);
        t->why = "its copy cannot be mapped";
        return at;
    }
    frozen_in_large_pieces(t->file, t->image->sys, (uintptr_t)at, text->size);
    t->mapped++;
    return 0;
}

static void close_file(struct thaw *t, uint32_t object)
{
    if (t->files[object] >= 0)
        sys_close(t->image->sys, t->files[object]);
    t->files[object] = -1;
}

/* What may forbid it (no-exec mounts, security modules) the kernel looks at before it
 * takes the old mapping away. */
static long map_texts(struct thaw *t, uint32_t object)
{
    const struct frozen_text *text = t->frozen->texts;
    long error = 0;

    for (uint32_t i = 0; i < t->frozen->header->n_texts && t->files[object] >= 0; i++)
        if (text[i].object == object && !error &&
            (i < t->file->laid.first_text || i >= t->file->laid.end_text))
            error = map_text(t, &text[i]);
    if (t->files[object] >= 0)
        t->table->objects[object]->code_known = 1; /* it was when the image was made */
    if (error && t->mapped && t->frozen->region)
        rimf_log(t->image->log, MVLD_LOG_WARNING, "%s: its copy cannot be mapped: what runs of it "
                 "at home takes addresses at home", object_at(t, object)->name);
    close_file(t, object);
    return error;
}

/* Without the first of them, which is the C library's, nothing may lead to copies; without
 * others, some of the unwinder's answers tell of copies. */
int thaw_answers(struct thaw *t)
{
    for (uint32_t i = 0; i < t->frozen->header->n_kept; i++) {
        long error = map_texts(t, t->frozen->kept[i].object);

        if (error && !t->mapped)
            return (int)error;
    }
    return 0;
}

/* Once copies of code are in force, a text that cannot be mapped is one whose functions run in
 * them until something leads home. */
static long map_all(struct thaw *t)
{
    for (uint32_t i = 0; i < t->frozen->header->n_objects; i++) {
        long error = map_texts(t, i);

        if (error && !t->frozen->region)
            return error;
    }
    return t->mapped;
}

int rimf_image_lays_over(const struct mvld_image *image, uintptr_t address)
{
    const struct thaw *t = image->thawing;

    for (uint32_t i = 0; t && i < t->frozen->header->n_texts; i++) {
        const struct frozen_text *text = &t->frozen->texts[i];

        if (address - (object_at(t, text->object)->bias + text->linked) < text->size)
            return 1;
    }
    return 0;
}

static void close_files(struct thaw *t)
{
    for (uint32_t i = 0; t->files && i < t->frozen->header->n_objects; i++)
        close_file(t, i);
    rimf_heap_release(&t->image->heap, t->files);
}

static void note_laid(struct thaw *t)
{
    for (uint32_t i = t->file->laid.first_text; i < t->file->laid.end_text; i++)
        t->table->objects[t->frozen->texts[i].object]->code_known = 1;
    t->mapped = t->file->laid.end_text - t->file->laid.first_text;
}

static long lay_over(struct thaw *t)
{
    long result = open_files(t);

    note_laid(t);
    if (!result)
        result = thaw_open_pointers(t);
    if (!result)
        result = thaw_copies(t);
    if (!result)
        result = map_all(t);
    if (result >= 0)
        thaw_write_pointers(t);
    thaw_close_pointers(t);
    close_files(t);
    return result;
}

long rimf_image_thaw(struct mvld_image *image, const struct frozen_file *file, uint64_t pipeline,
                     const char **why, const struct mvld_object **object)
{
    struct thaw t = {.image = image, .file = file, .frozen = &file->view};
    long result;

    t.table = rimf_table_enter(image);
    result = compare(&t, pipeline);
    if (!result && rimf_image_is_traced(image))
        result = thaw_refuse(&t, NULL, "a debugger may have breakpoints in the code");
    if (!result)
        result = lay_over(&t);
    if (result >= 0)
        rimf_later_start(image, t.table, t.frozen->objects, t.base, file->view.header->checksum);
    rimf_table_leave(image);
    *why = t.why;
    *object = t.object;
    return result;
}
