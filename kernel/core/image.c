/* SPDX-License-Identifier: MIT
 *
 * image.c: the engine's surroundings in a kernel: the objects are vmlinux and modules, no code moves, there
 * are no PLTs, and batch.c changes code.
 */
#include "kernel/core/core.h"

static const struct mvk_object *mvk_object_of(const struct mvld_object *object)
{
    return (const struct mvk_object *)(const void *)object;
}

static int object_holds(const struct mvld_object *object, uintptr_t address, size_t length, uint32_t prot)
{
    const struct mvld_segment *last = NULL;

    return mv_holds(object, &last, address, length, prot);
}

static const struct mvld_object *object_find(const struct mvld_image *image, uintptr_t address)
{
    for (const struct mvk_object *o = image->objects; o; o = o->next)
        if (object_holds(&o->object, address, 1, 0))
            return &o->object;
    return NULL;
}

static size_t object_count(const struct mvld_image *image)
{
    size_t n = 0;

    for (const struct mvk_object *o = image->objects; o; o = o->next)
        n++;
    return n;
}

static const struct mvld_object *object_at(const struct mvld_image *image, size_t index)
{
    const struct mvk_object *o = image->objects;

    while (o && index--)
        o = o->next;
    return o ? &o->object : NULL;
}

static int32_t distance(const int32_t *field, uintptr_t to)
{
    return (int32_t)(to - (uintptr_t)field);
}

/* The tables, as the note of a user program's object describes them.  The note is in the kernel's own data,
 * within 32-bit distances of the tables. */
static int note_each(const struct mvld_object *object, const char *name, uint32_t type,
                     int (*visit)(void *cookie, const void *desc, size_t size), void *cookie)
{
    static struct multiverse_note note;
    const struct mvk_tables *t = &mvk_object_of(object)->tables;

    if (type != MULTIVERSE_NOTE_TABLES || !rimf_streq(name, MULTIVERSE_NOTE_NAME) ||
        (t->functions == t->functions_end && t->callsites == t->callsites_end && t->switches == t->switches_end))
        return 0;
    note.version = MULTIVERSE_VERSION;
    note.functions = distance(&note.functions, t->functions);
    note.functions_end = distance(&note.functions_end, t->functions_end);
    note.callsites = distance(&note.callsites, t->callsites);
    note.callsites_end = distance(&note.callsites_end, t->callsites_end);
    note.switches = distance(&note.switches, t->switches);
    note.switches_end = distance(&note.switches_end, t->switches_end);
    return visit(cookie, &note, sizeof note);
}

static uintptr_t original_of(const struct mvld_image *image, uintptr_t address)
{
    (void)image;
    (void)address;
    return 0;
}

/* 2: nothing of the object has moved. */
static int moved_find(const struct mvld_image *image, uintptr_t original, size_t length, uintptr_t *moved)
{
    (void)image;
    (void)original;
    (void)length;
    *moved = 0;
    return 2;
}

static uintptr_t plt_target(const struct mvld_image *image, uintptr_t address)
{
    (void)image;
    return address;
}

static void *alloc(struct mvld_image *image, size_t size)
{
    (void)image;
    return mvk_alloc(size);
}

static void release(struct mvld_image *image, void *memory)
{
    (void)image;
    mvk_release(memory);
}

static void patch_often(struct mvld_image *image)
{
    (void)image;
}

static int fail(struct mvld_image *image, int err, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    rimf_vformat(image->error, sizeof image->error, format, args);
    va_end(args);
    return -err;
}

static const char *last_error(const struct mvld_image *image)
{
    return image->error;
}

/* The dump contains refusals; the kernel's log gets damaged descriptors only (core.c). */
static int log_enabled(const struct mvld_image *image, uint32_t category)
{
    (void)image;
    (void)category;
    return 0;
}

static void log_line(const struct mvld_image *image, uint32_t category, const char *format, ...)
{
    (void)image;
    (void)category;
    (void)format;
}

const struct mvld_api mvk_api = {
    .object_holds = object_holds, .object_find = object_find, .object_count = object_count, .object_at = object_at,
    .note_each = note_each, .original_of = original_of, .moved_find = moved_find, .plt_target = plt_target,
    .alloc = alloc, .release = release, .fail = fail, .last_error = last_error, .log = log_line,
    .log_enabled = log_enabled, .patch_begin = mvk_patch_begin, .patch_add = mvk_patch_add,
    .patch_add_words = mvk_patch_add_words, .patch_commit = mvk_patch_commit, .patch_at = mvk_patch_at,
    .patch_end = mvk_patch_end, .patch_often = patch_often,
};
