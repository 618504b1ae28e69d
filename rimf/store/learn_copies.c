/* SPDX-License-Identifier: MIT
 *
 * rimf/store/learn_copies.c: copies of the code of objects that came by dlopen (moved/moved.h), into the
 * files from which they come the next time (later.h).
 *
 * The process that learns has made them at places behind those of all that it knew, each in pages
 * of its own; these are their places from now on, unless somebody else has learnt meanwhile what
 * lies there.  Nothing in the pages depends on where they are mapped.
 */
#include "rimf/store/freeze.h"
#include "rimf/store/later_private.h"

#include "rimf/base/base.h"
#include "rimf/moved/moved.h"
#include "rimf/moved/symfile.h"

#include <errno.h> /* numbers only */
#include <fcntl.h> /* numbers only */

static const struct moved_fragment *copy_of(const struct learn *l, const struct rimf_object *object)
{
    return &l->image->moved->list[object->moved - 1];
}

/* ---- which --------------------------------------------------------------------------- */

int learn_copy_overlaps(const struct learn *l, const struct rimf_object *object)
{
    const struct rimf_region *region = &l->image->moved->region;
    const struct moved_fragment *copy = copy_of(l, object);
    uint64_t at = rimf_page_down(copy->at) - region->code, frames = object->frames - region->frames;

    for (uint32_t i = 0; i < l->known->header->n_objects; i++) {
        const struct later_code *code = &l->known->objects[i].code;

        if (later_has_copy(&l->known->objects[i]) &&
            ((at < rimf_page_up(code->at + code->size) &&
              rimf_page_down(code->at) < copy->at + copy->size - region->code) ||
             (frames < code->frames + rimf_page_up(code->frames_size) &&
              code->frames < frames + object->frames_size)))
            return 1;
    }
    return 0;
}

const char *learn_copy_unfit(const struct learn *l, const struct rimf_object *object)
{
    const struct moved_code *copies = l->image->moved;
    const struct moved_fragment *copy = copy_of(l, object);

    if (object->n_fragments != 1 || !copy->size)
        return "its code was copied in pieces";
    if (copy->at < copies->start_code || object->frames < copies->start_frames ||
        object->frames % RIMF_PAGE)
        return "the copy of its code shares pages with others";
    for (unsigned i = 0; i < RIMF_KEPT_ORIGINALS; i++)
        if (l->image->kept[i] - object->public.start <
            object->public.end - object->public.start)
            return "it answers for addresses";
    return NULL;
}

/* ---- one copy ------------------------------------------------------------------------------ */

static int write_pages(struct learn *l, const struct moved_fragment *copy,
                       const struct rimf_object *object, struct later_code *code, int fd)
{
    const struct rimf_sys *sys = l->image->sys;
    const void *from = (const void *)rimf_page_down(copy->at), *frames = (void *)object->frames;
    size_t size = rimf_page_up(copy->at + copy->size) - rimf_page_down(copy->at);
    size_t frames_size = rimf_page_up(code->frames_size);
    int error = freeze_write(sys, fd, from, size, code->offset);

    if (!error)
        error = freeze_write(sys, fd, frames, frames_size, code->offset + size);
    code->hash = rimf_mix(rimf_hash(from, size), rimf_hash(frames, frames_size));
    return error;
}

/* Names, code, frames. */
static int write_file(struct learn *l, const struct rimf_object *object, struct later_code *code,
                      int fd)
{
    const struct moved_fragment *copy = copy_of(l, object);
    const struct mvld_object *owner = rimf_object_find(l->image, copy->at);
    struct symfile names = {.first = object->moved - 1, .end = object->moved,
                            .base = owner ? owner->bias : 0, .frames = object->frames,
                            .frames_size = object->frames_size};
    int error = symfile_open(l->image, &names);

    if (error)
        return error;
    names.code_offset = code->offset = rimf_page_up(symfile_size(&names));
    names.frames_offset = code->offset + rimf_page_up(copy->at + copy->size) -
                          rimf_page_down(copy->at);
    error = freeze_names(l->image, &names, fd);
    symfile_close(l->image, &names);
    if (!error)
        error = write_pages(l, copy, object, code, fd);
    return error ? error : freeze_finish(l->image->sys, fd, &code->file);
}

static void describe(struct learn *l, const struct rimf_object *object, struct later_code *code)
{
    const struct rimf_region *region = &l->image->moved->region;
    const struct moved_fragment *copy = copy_of(l, object);

    code->at = copy->at - region->code;
    code->frames = object->frames - region->frames;
    code->original = (uint32_t)(copy->original - object->public.bias);
    code->code = (uint32_t)copy->code;
    code->size = (uint32_t)copy->size;
    code->frames_size = (uint32_t)object->frames_size;
    code->flags = copy->is_canonical ? FROZEN_MOVED : 0;
    code->n_homes = (uint32_t)copy->n_homes;
    if (copy->n_homes)
        memcpy(l->homes + l->header->n_homes, copy->homes, copy->n_homes * sizeof *copy->homes);
    l->header->n_homes += code->n_homes;
}

int learn_copy(struct learn *l, struct later_object *entry, const struct rimf_object *object)
{
    const struct rimf_sys *sys = l->image->sys;
    char name[FROZEN_NAME_MAX + 1], file[FROZEN_NAME_MAX + 1];
    int error;
    long fd;

    freeze_name(name, sizeof name, object->number - 1, object);
    rimf_format(file, sizeof file, "%s.code", name);
    entry->code.name = learn_name(l, file);
    describe(l, object, &entry->code);
    fd = SYS6(sys, SYS_openat, l->folder, file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644, 0,
              0);
    if (sys_failed(fd))
        return (int)fd;
    error = write_file(l, object, &entry->code, (int)fd);
    sys_close(sys, (int)fd);
    return error;
}

/* ---- the table ----------------------------------------------------------------------------- */

static size_t new_entries(const struct learn *l, void *to, size_t n)
{
    size_t more = 0;

    for (size_t i = 0; i < l->n; i++) {
        const struct rimf_object *object = l->learnt[i];
        const struct later_object *entry =
            &l->objects[object->number - 1 - l->image->n_start];

        if (!later_has_copy(entry))
            continue;
        if (to)
            n = moved_frames_merge(l->image->moved, copy_of(l, object)->at, entry->code.size, to,
                                  n);
        else
            more += moved_frames_merge(l->image->moved, copy_of(l, object)->at, entry->code.size,
                                      NULL, 0);
    }
    return to ? n : more;
}

/* What is known of all that were learnt before, or of the start. */
static int read_table(struct learn *l, void *to)
{
    const struct later_table *old = &l->known->header->table;
    const struct moved_code *copies = l->image->moved;
    size_t size = moved_frames_searched(old->n);
    const char *why;
    long fd, got;

    if (file_id_is_none(&old->file)) {
        moved_frames_read(copies, copies->n_start_frames, to);
        return 0;
    }
    fd = later_open_file(l->image, l->folder, l->user, l->known->names + old->name, &old->file,
                         &why);
    if (sys_failed(fd))
        return (int)fd;
    got = sys_pread(l->image->sys, (int)fd, to, size, 0);
    sys_close(l->image->sys, (int)fd);
    return got == (long)size ? 0 : -EIO;
}

/* What they take of the region, all together. */
static void widen(struct learn *l)
{
    const struct moved_code *copies = l->image->moved;
    struct later_table *table = &l->header->table;

    if (file_id_is_none(&table->file)) {
        table->code = table->code_end = copies->start_code - copies->region.code;
        table->frames = table->frames_end = copies->start_frames - copies->region.frames;
        table->n_start = table->n = (uint32_t)copies->n_start_frames;
    }
    for (size_t i = 0; i < l->n; i++) {
        const struct later_code *code =
            &l->objects[l->learnt[i]->number - 1 - l->image->n_start].code;
        uint64_t end = rimf_page_up(code->at + code->size);
        uint64_t frames = code->frames + rimf_page_up(code->frames_size);

        if (file_id_is_none(&code->file))
            continue;
        table->code_end = end > table->code_end ? end : table->code_end;
        table->frames_end = frames > table->frames_end ? frames : table->frames_end;
    }
}

static int write_table(struct learn *l, void *bytes, size_t size)
{
    const struct rimf_sys *sys = l->image->sys;
    struct later_table *table = &l->header->table;
    char name[FROZEN_NAME_MAX + 1];
    int error;
    long fd;

    rimf_format(name, sizeof name, LATER_TABLE, l->header->n_objects);
    SYS3(sys, SYS_unlinkat, l->folder, name, 0); /* of one that stopped in between */
    fd = SYS6(sys, SYS_openat, l->folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644, 0,
              0);
    if (sys_failed(fd))
        return (int)fd;
    table->name = learn_name(l, name);
    table->hash = rimf_hash(bytes, size);
    error = freeze_write(sys, (int)fd, bytes, size, 0);
    if (!error)
        error = freeze_finish(sys, (int)fd, &table->file);
    sys_close(sys, (int)fd);
    return error;
}

int learn_table(struct learn *l)
{
    size_t more = new_entries(l, NULL, 0), n, size;
    struct moved_code *copies = l->image->moved;
    void *bytes;
    int error;

    if (!copies || !more)
        return 0;
    widen(l);
    n = l->header->table.n + more;
    size = moved_frames_searched(n);
    if (size > moved_frames_table(&copies->region))
        return -ENOSPC;
    bytes = rimf_heap_alloc(&l->image->heap, size);
    error = bytes ? read_table(l, bytes) : -ENOMEM;
    if (!error) {
        l->header->table.n = (uint32_t)new_entries(l, bytes, l->header->table.n);
        error = write_table(l, bytes, size);
    }
    rimf_heap_release(&l->image->heap, bytes);
    return error;
}
