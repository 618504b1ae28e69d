/* SPDX-License-Identifier: MIT
 *
 * rimf/store/write_start.c: writes the passes' changes of this process's code (manifest.h).
 *
 * Passes declare which objects they changed and which words they relied on; everything else is read from the
 * image: the files, the distances, the present text.  Overlays are written and synced before the manifest,
 * without which a folder is not used; so a machine that stops in between leaves nothing that a start would
 * use.
 */
#include "rimf/store/apply.h"
#include "rimf/store/writer.h"

#include "rimf/base/base.h"
#include "rimf/moved/moved.h"
#include "rimf/base/cpu.h"

#include <errno.h> /* numbers only */
#include <fcntl.h> /* numbers only */

static int fill_object(struct writer *w, uint32_t i)
{
    const struct rimf_object *object = w->table->objects[i];
    struct manifest_object *out;

    if (!object->file.known && !(object->public.flags & MVLD_OBJECT_VDSO))
        return rimf_fail(w->image, ENOTSUP, "%s: from which file it was mapped is not known",
                         object->public.name);
    out = writer_object(w, object);
    if (object->code.changed) /* else it is 0, the offset of "" */
        writer_name_overlay(w, out, i, object);
    return 0;
}

/* By object, not by address: distances may be negative. */
static int fill_words(struct writer *w)
{
    const struct rimf_word_list *words = &w->image->watch->words;

    for (uint32_t i = 0; i < w->table->n_objects; i++) {
        const struct mvld_object *object = &w->table->objects[i]->public;
        size_t k = rimf_words_first(words, object->start);

        for (; k < words->n && words->at[k] < object->end; k++)
            if (writer_word(w, words->at[k], moved_word(w->image, words->at[k])))
                return rimf_fail(w->image, ENOTSUP, "%s: a pass relies on a word at %p that leads to no object "
                                 "of a file", object->name, (void *)words->at[k]);
    }
    return 0;
}

/* Writes moved code, if any, and behind it tables of relocations. */
static int write_tables(struct writer *w)
{
    const struct rimf_sys *sys = w->image->sys;
    int moved = w->image->moved && w->image->moved->n, error;
    const char *name = moved ? MOVED_FILE : RELOCATIONS_FILE;
    long fd = cache_create(sys, w->folder, name);
    uint64_t end = 0;

    error = sys_failed(fd) ? (int)fd : moved ? write_moved(w, (int)fd, &end) : 0;
    if (!error && !w->image->has_filter)
        error = write_relocations(w, (int)fd, end);
    if (!error && (moved || w->header->n_relocations))
        error = write_finish(w, name, &w->header->tables);
    else if (!error)
        error = (int)SYS3(sys, SYS_unlinkat, w->folder, name, 0);
    if (!sys_failed(fd))
        sys_close(sys, (int)fd);
    return error ? rimf_fail(w->image, -error, "%s cannot be written%s (error %d)", name, write_full(error), -error) : 0;
}

static int fill(struct writer *w)
{
    int error = 0;

    for (uint32_t i = 0; !error && i < w->table->n_objects; i++)
        error = fill_object(w, i);
    if (!error)
        error = fill_words(w);
    for (uint32_t i = 0; !error && i < w->table->n_objects; i++)
        if (w->table->objects[i]->code.changed)
            error = write_overlay(w, w->table->objects[i], i, w->names + w->objects[i].overlay_name);
    if (!error)
        error = write_tables(w);
    if (!error)
        error = write_finish_overlays(w, 0);
    if (!error)
        error = write_pointers(w);
    if (!error && (error = cache_write(w->image->sys, w->folder, MANIFEST_FILE, w->header, writer_close(w))))
        error = rimf_fail(w->image, -error, "the manifest cannot be written%s (error %d)", write_full(error), -error);
    return error;
}

/* ---- space ------------------------------------------------------------------------- */

static size_t name_size(const char *name)
{
    return name ? rimf_strlen(name) + 1 : 0;
}

static void fill_header(struct writer *w, const struct rimf_start *s)
{
    struct manifest_header *h = w->header;

    h->made_by = s->made_by;
    h->layout_seed = s->layout_seed;
    h->cpu = cpu_identity(&cpu_at_hand, NULL);
    for (size_t i = 0; i < s->n_makers; i++) {
        const struct rimf_maker *maker = &s->makers[i];

        h->passes[h->n_passes++] = (struct manifest_pass){
            .name = writer_name(w, maker->name),
            .library = maker->library ? writer_name(w, maker->library) : 0,
            .flags = maker->flags,
            .file = (uint32_t)file_id_key(&maker->file),
        };
    }
    for (size_t i = 0; i < s->n_reads; i++)
        h->reads[h->n_reads++] = (struct manifest_read){.name = writer_name(w, s->reads[i].path),
                                                        .file = s->reads[i].file};
    h->launch_key = s->launch_key ? writer_name(w, s->launch_key) : 0;
}

/* Allocates the maximum for everything. */
static int make_room(struct writer *w, const struct rimf_start *s)
{
    struct mvld_image *image = w->image;
    const struct rimf_watch *watch = image->watch;
    const struct moved_code *moved = image->moved;
    size_t n = w->table->n_objects, *room = w->room;

    room[MANIFEST_OBJECTS] = room[MANIFEST_RELOCATIONS] = n;
    room[MANIFEST_WORDS] = watch->words.n;
    room[MANIFEST_REGIONS] = 1;
    room[MANIFEST_POINTERS] = watch->pointers.n;
    room[MANIFEST_KEPT] = MANIFEST_KEPT_MAX;
    room[MANIFEST_NAMES] = name_size(s->launch_key);
    for (size_t i = 0; i < s->n_makers; i++)
        room[MANIFEST_NAMES] += name_size(s->makers[i].name) + name_size(s->makers[i].library);
    for (size_t i = 0; i < s->n_reads; i++)
        room[MANIFEST_NAMES] += name_size(s->reads[i].path);
    for (size_t i = 0; moved && i < moved->n; i++) {
        room[MANIFEST_FRAGMENTS]++;
        room[MANIFEST_FIXED_CODE] += moved->list[i].n_fixed;
    }
    for (size_t i = 0; i < n; i++) {
        const struct rimf_object *object = w->table->objects[i];

        room[MANIFEST_TEXTS] += object->public.phnum;
        room[MANIFEST_SHIFTS] += object->view.n_relocations + object->view.n_plt_relocations;
        room[MANIFEST_NAMES] += name_size(object->public.name) + MANIFEST_NAME_MAX + 1;
    }
    w->ways = rimf_heap_alloc(&image->heap, watch->pointers.n + 1);
    if (!w->ways || writer_open(w))
        return rimf_fail(w->image, ENOMEM, "there is no memory for a manifest");
    memset(w->ways, WRITER_WORD, watch->pointers.n);
    fill_header(w, s);
    return 0;
}

/* ---- all of it ------------------------------------------------------------------------ */

static uintptr_t find_base(const struct rimf_table *table)
{
    for (size_t i = 0; i < table->n_objects; i++)
        if (!(table->objects[i]->public.flags & MVLD_OBJECT_UNPLACED))
            return table->objects[i]->public.bias;
    return 0;
}

static int is_changed(const struct rimf_table *table)
{
    for (size_t i = 0; i < table->n_objects; i++)
        if (table->objects[i]->code.changed)
            return 1;
    return 0;
}

/* Creates and opens the folder, if code may be mapped from its file system: otherwise no start could use the
 * manifest, and with on-miss = build each would write a new one. */
static int make_folder(struct writer *w, const char *folder)
{
    const struct rimf_sys *sys = w->image->sys;
    int error = cache_make_folder(sys, folder);
    long fd;

    if (error)
        return rimf_fail(w->image, -error, "%s: the folder cannot be made (error %d)",
                         folder, -error);
    fd = sys_openat(sys, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW, 0);
    if (sys_failed(fd))
        return rimf_fail(w->image, (int)-fd, "%s: the folder cannot be opened (error %ld)",
                         folder, -fd);
    w->folder = (int)fd;
    if (write_may_run(sys, (int)fd))
        return 0;
    sys_close(sys, (int)fd);
    return rimf_fail(w->image, EACCES, "%s: no code may be mapped from there (noexec)", folder);
}

static int say_unsettled(const struct writer *w, const char *path, const char *why)
{
    return why ? rimf_fail(w->image, EAGAIN, "%s: %s", path, why) : 0;
}

static int settle_file(const struct writer *w, const char *path, const struct file_id *file)
{
    return say_unsettled(w, path, file_id_unsettled(w->image->sys, file, path));
}

/* Checks that the identities of files are final. */
static int settle(const struct writer *w, const struct rimf_start *s)
{
    int error = 0;

    for (size_t i = 0; i < w->table->n_objects && !error; i++)
        if (w->table->objects[i]->file.known)
            error = say_unsettled(w, w->table->objects[i]->public.name,
                                  writer_unsettled(w->image, w->table->objects[i]));
    for (size_t i = 0; i < s->n_makers && !error; i++)
        error = settle_file(w, s->makers[i].path, &s->makers[i].file);
    for (size_t i = 0; i < s->n_reads && !error; i++)
        if (!file_id_is_none(&s->reads[i].file))
            error = settle_file(w, s->reads[i].path, &s->reads[i].file);
    return error;
}

static int write_all(struct writer *w, const char *folder, const struct rimf_start *s)
{
    int error;

    if (!is_changed(w->table))
        return rimf_fail(w->image, ENODATA, "no pass changed any code");
    if (w->table->n_objects > MANIFEST_OBJECTS_MAX)
        return rimf_fail(w->image, E2BIG, "the program has more than %u objects", MANIFEST_OBJECTS_MAX);
    error = settle(w, s);
    if (!error)
        error = make_room(w, s);
    if (!error)
        error = make_folder(w, folder);
    if (error)
        return error;
    error = fill(w);
    sys_close(w->image->sys, w->folder);
    return error;
}

int rimf_manifest_write(struct mvld_image *image, const char *folder, const struct rimf_start *s)
{
    struct writer own = {.image = image}, *w = &own;
    int error;

    if (!image->watch)
        return rimf_fail(image, ENOMEM, "there was no memory to note what the passes did");
    if (s->n_reads > MANIFEST_READS_MAX)
        return rimf_fail(image, E2BIG, "the passes read more than %u files", MANIFEST_READS_MAX);
    if (rimf_image_is_traced(image))
        return rimf_fail(image, EBUSY, "a debugger may have breakpoints in the code");
    w->table = rimf_table_enter(image);
    w->base = find_base(w->table);
    error = write_choices(image, w->table);
    if (rimf_watch_finish(image))
        error = rimf_fail(image, ENOMEM, "there was no memory to note what the passes did");
    if (!error)
        error = write_all(w, folder, s);
    if (!error)
        rimf_later_start(image, w->table, w->objects, w->base, w->header->checksum);
    rimf_table_leave(image);
    writer_release(w);
    return error;
}
