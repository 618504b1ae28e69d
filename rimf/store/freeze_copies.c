/* SPDX-License-Identifier: MIT
 *
 * rimf/store/freeze_copies.c: copies of code (moved/moved.h) and their unwind tables as they are
 * now, into one file.
 *
 *     names   header of an ELF file, symbols: whoever meets the file in /proc/PID/maps, or in
 *             a recording of perf, can tell which functions the addresses are in (symfile.h)
 *     code, then the sorted table, then the frames, in whole pages; code that is to lie in
 *     huge pages at an offset that fits them (moved/pages.c)
 *
 * Addresses are as linked of the object whose memory the region is.  Nothing in the pages
 * depends on where they are mapped: copies hold distances, as all code does.
 */
#include "rimf/store/freeze.h"

#include "rimf/base/base.h"
#include "rimf/moved/moved.h"
#include "rimf/moved/symfile.h"

#include <errno.h> /* numbers only */
#include <fcntl.h> /* numbers only */

/* The pieces, from `offset` on, without holes in the file. */
static void fill_region(struct freeze *f, const struct mvld_object *object, uint64_t offset)
{
    const struct moved_code *copies = f->image->moved;
    const struct rimf_region *region = &copies->region;
    uintptr_t starts[FROZEN_PIECES] = {region->code, region->frames,
                                       region->frames + moved_frames_table(region)};
    uintptr_t ends[FROZEN_PIECES] = {copies->code_end,
                                     region->frames + moved_frames_searched(copies->n_frames),
                                     copies->frames_end};

    *f->region = (struct frozen_region){
        .object = freeze_index(f, object),
        .n_frames = (uint32_t)copies->n_frames,
        .code = region->code - object->bias,
        .code_size = region->code_size,
        .frames = region->frames - object->bias,
        .frames_size = region->frames_size,
        .hot = copies->hot_end ? copies->hot_end - region->code : 0,
        .pages = copies->pages,
        .described = f->image->n_described
                         ? (uint32_t)(f->image->described->start - object->bias) : 0,
    };
    for (int i = 0; i < FROZEN_PIECES; i++) {
        f->region->pieces[i] = (struct frozen_piece){starts[i] - object->bias, ends[i] - starts[i],
                                                     offset};
        offset += ends[i] - starts[i];
    }
    f->header->n_regions = 1;
}

/* So that no start has to. */
static int sort_copies(struct freeze *f)
{
    size_t n = 0;

    for (size_t i = 0; i < f->table->n_objects; i++) {
        struct rimf_object *object = f->table->objects[i];

        if (object->n_fragments)
            moved_sort(f->image->moved, object);
        for (size_t k = 0; k < object->n_fragments && n < f->header->n_copies; k++)
            f->copies[n++].sorted = object->fragments[k];
    }
    return n == f->header->n_copies ? 0 : rimf_fail(f->image, ENOTSUP, "code of no object was copied");
}

static int fill_copies(struct freeze *f, const struct mvld_object *object)
{
    const struct moved_code *copies = f->image->moved;

    for (size_t i = 0; i < copies->n; i++) {
        const struct moved_fragment *copy = &copies->list[i];

        if (!copy->size || copy->object->public.flags & MVLD_OBJECT_UNPLACED)
            return rimf_fail(f->image, ENOTSUP, "%s: its code was copied, and cannot be frozen",
                             copy->object->public.name);
        f->copies[f->header->n_copies++] = (struct frozen_copy){
            .object = freeze_index(f, &copy->object->public),
            .flags = copy->is_canonical ? FROZEN_MOVED : 0,
            .original = (uint32_t)(copy->original - copy->object->public.bias),
            .n_homes = (uint32_t)copy->n_homes,
            .at = copy->at - object->bias,
            .code = (uint32_t)copy->code,
            .size = (uint32_t)copy->size,
        };
        if (copy->n_homes)
            memcpy(f->homes + f->header->n_homes, copy->homes,
                   copy->n_homes * sizeof *copy->homes);
        f->header->n_homes += (uint32_t)copy->n_homes;
    }
    return sort_copies(f);
}

static void fill_kept(struct freeze *f)
{
    for (unsigned i = 0; i < RIMF_KEPT_ORIGINALS; i++) {
        size_t size;
        uintptr_t at = rimf_image_kept_original(f->image, i, &size);
        const struct mvld_object *object = at ? rimf_object_find(f->image, at) : NULL;

        if (object && !(object->flags & MVLD_OBJECT_UNPLACED))
            f->kept[f->header->n_kept++] = (struct frozen_kept){
                .object = freeze_index(f, object),
                .number = i,
                .linked = (uint32_t)(at - object->bias),
                .size = (uint32_t)size,
            };
    }
}

static int write_pieces(struct freeze *f, const struct mvld_object *object, int fd)
{
    const struct rimf_sys *sys = f->image->sys;
    uint64_t hashes[FROZEN_PIECES];
    int error = 0;

    for (int i = 0; i < FROZEN_PIECES && !error; i++) {
        const struct frozen_piece *piece = &f->region->pieces[i];
        const void *pages = (const void *)(object->bias + piece->linked);

        hashes[i] = rimf_hash(pages, piece->size);
        error = freeze_write(sys, fd, pages, piece->size, piece->offset);
    }
    f->region->hash = rimf_hash(hashes, sizeof hashes);
    return error;
}

int freeze_names(struct mvld_image *image, const struct symfile *names, int fd)
{
    size_t size = symfile_size(names);
    void *bytes = rimf_heap_alloc(&image->heap, size);
    int error = bytes ? symfile_write(image, names, bytes) : -ENOMEM;

    if (!error)
        error = freeze_write(image->sys, fd, bytes, size, 0);
    rimf_heap_release(&image->heap, bytes);
    return error;
}

/* The whole file. */
static int write_file(struct freeze *f, const struct mvld_object *object, int fd)
{
    const struct moved_code *copies = f->image->moved;
    uintptr_t frames = copies->region.frames + moved_frames_table(&copies->region);
    struct symfile names = {.end = copies->n, .base = object->bias, .frames = frames,
                            .frames_size = copies->frames_end - frames};
    int error = symfile_open(f->image, &names);

    if (error)
        return error;
    fill_region(f, object, moved_pages_offset(copies, rimf_page_up(symfile_size(&names))));
    names.code_offset = f->region->pieces[FROZEN_CODE].offset;
    names.frames_offset = f->region->pieces[FROZEN_FRAMES].offset;
    error = freeze_names(f->image, &names, fd);
    symfile_close(f->image, &names);
    if (!error)
        error = fill_copies(f, object);
    fill_kept(f);
    if (!error)
        error = write_pieces(f, object, fd);
    return error ? error : freeze_finish(f->image->sys, fd, &f->region->file);
}

int freeze_copies(struct freeze *f)
{
    const struct moved_code *copies = f->image->moved;
    const struct rimf_sys *sys = f->image->sys;
    const struct mvld_object *object;
    int error;
    long fd;

    if (!copies || !copies->n)
        return 0;
    object = rimf_object_find(f->image, copies->region.code);
    if (!object || object->flags & MVLD_OBJECT_UNPLACED)
        return rimf_fail(f->image, ENOTSUP, "copies of code lie where no object is");
    fd = SYS6(sys, SYS_openat, f->folder, FROZEN_COPIES, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
              0644, 0, 0);
    error = sys_failed(fd) ? (int)fd : write_file(f, object, (int)fd);
    if (!sys_failed(fd))
        sys_close(sys, (int)fd);
    return error ? rimf_fail(f->image, -error, "copies of code cannot be written (error %d)",
                             -error)
                 : 0;
}
