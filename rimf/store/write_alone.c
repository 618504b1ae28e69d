/* SPDX-License-Identifier: MIT
 *
 * rimf/store/write_alone.c: the calls of an object as passes want them, in an overlay that stands alone (manifest.h).
 *
 * The segments of code are read from the object's file, its calls are made direct there (write_alone_code.c), and
 * the file is written with these in their places; then the manifest behind it.  The file is
 * complete before it gets its name.
 */
#include "rimf/store/writer.h"

#include "rimf/base/base.h"
#include "rimf/base/cache.h"

#include <errno.h>    /* numbers only */
#include <fcntl.h>    /* numbers only */

#define PATH_SIZE 1024u

/* ---- the manifest ------------------------------------------------------------------------ */

int alone_is_inner(const struct alone *a, uintptr_t target)
{
    return elf_holds(&a->object->view, target, 1, PROT_READ | PROT_EXEC);
}

int alone_may_hold(const struct alone *a, uintptr_t target)
{
    const struct mvld_object *to = NULL;

    if (alone_is_inner(a, target))
        return 1;
    if (a->reach == ALONE_ALL)
        to = rimf_object_find(a->w.image, target);
    return to && !(to->flags & ALONE_UNFIT) && rimf_object_of(to)->identified;
}

/* Room for all, at most. */
static int make_room(struct alone *a, const struct rimf_table *others, const struct rimf_object *program)
{
    struct writer *w = &a->w;

    w->room[MANIFEST_OBJECTS] = others->n_objects;
    w->room[MANIFEST_TEXTS] = a->object->public.phnum;
    w->room[MANIFEST_WORDS] = w->room[MANIFEST_LEFT] = a->c->n_ways;
    w->room[MANIFEST_CALLS] = a->c->n_calls;
    w->room[MANIFEST_NAMES] = MANIFEST_NAME_MAX + 1;
    if (program)
        w->room[MANIFEST_NAMES] += rimf_strlen(program->public.name) + 1;
    for (size_t i = 0; i < others->n_objects; i++)
        w->room[MANIFEST_NAMES] += rimf_strlen(others->objects[i]->public.name) + 1;
    a->counts = rimf_heap_alloc(&w->image->heap, a->c->n_ways * sizeof *a->counts);
    if (!a->counts || writer_open(w))
        return alone_refuse(a, -ENOMEM, "out of memory");
    w->header->made_by = w->image->overlays.made_by;
    if (program)
        w->header->reads[w->header->n_reads++] =
            (struct manifest_read){.name = writer_name(w, program->public.name), .file = program->identity};
    return 0;
}

/* Where it lies in starts in which no distances are drawn. */
static void add_object(struct alone *a, struct rimf_table *table, struct rimf_object *object)
{
    struct manifest_object *entry = writer_object(&a->w, object);

    table->objects[table->n_objects++] = object;
    entry->distance = alone_distance(a->w.image, a->object, &object->public);
}

/* Where the slots lead whose calls are direct, and the objects that these lead to; and those that are left. */
static int fill_words(struct alone *a, struct rimf_table *table)
{
    uintptr_t bias = a->object->view.bias;

    for (size_t i = 1; i < a->c->n_ways; i++) {
        uintptr_t target = a->c->ways[i].target, slot = bias + a->c->first + 8 * (i - 1);
        const struct mvld_object *to = a->counts[i] ? rimf_object_find(a->w.image, target) : NULL;

        if (a->counts[i] && !target)
            a->w.left[a->w.header->n_left++] =
                (struct manifest_left){.slot = (uint32_t)(slot - bias), .calls = a->counts[i]};
        if (!a->counts[i] || !target)
            continue;
        if (to && writer_number(&a->w, to) == ~0u)
            add_object(a, table, (struct rimf_object *)rimf_object_of(to));
        if (writer_word(&a->w, slot, target))
            return alone_refuse(a, -ENOTSUP, "a call leads to no object");
    }
    return 0;
}

/* What its file will be. */
static const struct file_id *finish(struct alone *a)
{
    struct manifest_object *self = a->w.objects;

    for (size_t i = 0; i < a->c->n_ways; i++)
        self->n_calls += a->c->ways[i].target ? a->counts[i] : 0;
    self->flags |= a->counts[0] ? MANIFEST_SINGLES : 0;
    self->overlay.changed = 0;
    self->overlay.size = rimf_page_up(self->file.size) + writer_close(&a->w); /* it is the first: it did not move */
    a->w.header->checksum = manifest_checksum(a->w.header, a->w.header->size);
    return &self->overlay;
}

/* ---- the file -------------------------------------------------------------------------- */

/* Behind the changed file, and the time that it says it has. */
static int write_tables(struct alone *a)
{
    const struct rimf_sys *sys = a->w.image->sys;
    const struct file_id *own = finish(a);
    int64_t second = 1000000000;
    const int64_t times[4] = {own->modified / second, own->modified % second,
                              own->modified / second, own->modified % second};
    long fd = SYS6(sys, SYS_openat, a->w.folder, CACHE_UNFINISHED, O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0, 0, 0);
    struct stat st;
    int error;

    if (sys_failed(fd))
        return alone_refuse(a, (int)fd, "its file cannot be written");
    error = write_bytes(sys, (int)fd, a->w.header, a->w.header->size, rimf_page_up(a->w.objects->file.size));
    if (!error)
        error = (int)SYS3(sys, SYS_fsync, fd, 0, 0);
    if (!error)
        error = (int)SYS6(sys, SYS_utimensat, fd, 0, times, 0, 0, 0);
    if (!error && (SYS3(sys, SYS_fstat, fd, &st, 0) || !file_id_is_own(own, &st)))
        error = -EIO; /* times of this file system are too coarse */
    sys_close(sys, (int)fd);
    return error ? alone_refuse(a, error, "its tables cannot be written") : 0;
}

static int write_file(struct alone *a, const char *name)
{
    const struct rimf_sys *sys = a->w.image->sys;
    const struct analysis_place *place = &a->w.image->overlays.written;
    int error;

    if (!write_may_run(sys, a->w.folder))
        return alone_refuse(a, -EACCES, "no code may be mapped from there (noexec)");
    error = manifest_remove(sys, a->w.folder, CACHE_UNFINISHED, place->user, &a->why); /* of one that was killed */
    if (error && error != -ENOENT)
        return alone_refuse(a, error, "what lies beside it as " CACHE_UNFINISHED " is not of mvld: remove it");
    error = write_overlay(&a->w, a->object, a->w.objects, 0, CACHE_UNFINISHED);
    error = error ? alone_refuse(a, error, "its file cannot be written") : write_tables(a);
    if (!error && SYS6(sys, SYS_renameat, a->w.folder, CACHE_UNFINISHED, a->w.folder, name, 0, 0))
        error = alone_refuse(a, -EACCES, "its file cannot be put there");
    if (error)
        SYS3(sys, SYS_unlinkat, a->w.folder, CACHE_UNFINISHED, 0);
    return error;
}

/* Where folders may not be made, nothing is written (a filter of system calls). */
static int write_to(struct alone *a, char *path)
{
    const struct rimf_sys *sys = a->w.image->sys;
    const struct analysis_place *place = &a->w.image->overlays.written;
    struct stat st;
    long folder;
    int error;

    if (cache_make_folders(sys, path, 3))
        return alone_refuse(a, -EACCES, "its folder cannot be made");
    folder = cache_open(sys, AT_FDCWD, place->folder, S_IFDIR, place->user, &st, &a->why);
    if (sys_failed(folder))
        return (int)folder;
    a->w.folder = (int)folder;
    error = write_file(a, rimf_strrchr(path, '/') + 1);
    sys_close(sys, (int)folder);
    return error;
}

/* One call, at least, may be direct. */
static int has_calls(const struct alone *a)
{
    const struct emit_calls *c = a->c;

    for (size_t i = 0; i < c->n_ways; i++)
        if (c->ways[i].target && (!i || alone_may_hold(a, c->ways[i].target)))
            return 1;
    return 0;
}

/* `table` has room for all objects of the image. */
static int make(struct alone *a, struct rimf_table *table, const struct rimf_table *all,
                const struct rimf_object *program, char *path)
{
    const struct rimf_sys *sys = a->w.image->sys;
    const char *why;
    int error;

    if (!a->object->identified || a->object->view.text_relocations || a->object->public.why)
        return alone_refuse(a, -ENOTSUP, "its code is not that of a file");
    why = file_id_unsettled(sys, &a->object->identity, a->object->public.name);
    if (!why && program)
        why = file_id_unsettled(sys, &program->identity, program->public.name);
    if (why)
        return alone_refuse(a, -EAGAIN, why);
    error = make_room(a, all, program);
    if (error)
        return error;
    a->w.table = table;
    a->w.base = a->object->public.bias;
    add_object(a, table, a->c->object);
    writer_name_overlay(&a->w, a->w.objects, 0, a->object);
    error = alone_code_read(a);
    if (!error)
        error = alone_code_make(a);
    if (!error)
        error = fill_words(a, table);
    return error ? error : write_to(a, path);
}

static void write_one(struct mvld_image *image, struct emit_calls *c, enum alone_reach reach, char *path)
{
    const struct rimf_table *all = rimf_table_enter(image);
    struct alone a = {.w = {.image = image}, .c = c, .object = c->object, .reach = reach};
    struct rimf_object **objects = rimf_heap_alloc(&image->heap, all->n_objects * sizeof *objects);
    struct rimf_table table = {.objects = objects};

    if (objects && has_calls(&a)) {
        int error = make(&a, &table, all, reach == ALONE_ALL ? rimf_alone_program(image) : NULL, path);

        rimf_log(image->log, MVLD_LOG_PASSES, "ready code of %s: %swritten (%s): %s%s%s", c->object->public.name,
                 error ? "not " : "", overlay_reach_name(reach == ALONE_ALL), path, error ? ": " : "",
                 error ? a.why : "");
        image->overlays_made.written += !error;
        image->overlays_made.refused += error && error != -ENOTSUP && error != -ENODATA; /* not worth one */
    }
    rimf_table_leave(image);
    alone_code_forget(&a);
    writer_release(&a.w);
    rimf_heap_release(&image->heap, a.counts);
    rimf_heap_release(&image->heap, objects);
}

void rimf_alone_write(struct mvld_image *image, struct emit_calls *c)
{
    const char *folder, *name = c->object->public.name;
    char path[PATH_SIZE];

    if (!image->writes || rimf_image_is_traced(image))
        return;
    rimf_places_ask(image);
    folder = image->overlays.written.folder;
    if (!folder)
        return;
    for (unsigned reach = 0; reach < ALONE_REACHES; reach++) {
        uint64_t key = rimf_alone_key(image, c->object, (enum alone_reach)reach);

        if (key == ALONE_NO_KEY || !overlay_path(path, sizeof path, folder, &c->object->identity, key, name))
            continue;
        if (rimf_alone_exists(image, c->object, key))
            image->overlays_made.there++;
        else
            write_one(image, c, (enum alone_reach)reach, path);
    }
}

struct rimf_overlays_made rimf_image_overlays_made(const struct mvld_image *image)
{
    struct rimf_overlays_made made = image->overlays_made;

    made.folder = image->overlays.written.folder;
    return made;
}
