/* SPDX-License-Identifier: MIT
 *
 * rimf/store/thaw_later_copies.c: copies of code that came by dlopen before, at the same places again
 * (later.h tells of them).
 *
 *     rimf_later_join     once, before anything is copied in this process: the places of all of
 *                         them are taken, and unwinders find their entries
 *     later_map_copy      one of them lies there from now on, and nothing leads to it yet
 *     later_unmap_copy    it does not
 *
 * READERS of any thread look into the list and into the table meanwhile.  A longer list is
 * published before it is counted (moved/region.c).  Copies that are not there have the size 0 in
 * it; the size comes last, and goes first.  The new table begins with the old one, and takes its
 * place in one step.  Its entries for copies that are not there describe code that nobody runs.
 */
#include "rimf/store/later_private.h"

#include "rimf/base/base.h"
#include "rimf/moved/moved.h"
#include "rimf/store/thaw.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

int later_has_copy(const struct later_object *object)
{
    return !file_id_is_none(&object->code.file);
}

/* ---- joining ---------------------------------------------------------------------------- */

struct joining {
    struct mvld_image *image;
    struct moved_code *copies;
    const struct later *later;
    const struct later_table *table;
    struct moved_fragment *list; /* the new one */
    size_t n;               /* in it */
    const char *why;
};

static int refuse(struct joining *j, int error, const char *why)
{
    j->why = why;
    return error;
}

/* Nothing was copied since the start, and all of it has room. */
static int compare(struct joining *j)
{
    const struct moved_code *copies = j->copies;
    const struct rimf_region *region;

    if (!copies || copies->n_planned != copies->n)
        return refuse(j, -ESTALE, "there is no region for copies of code");
    region = &copies->region;
    if (copies->code_end - region->code != j->table->code ||
        copies->frames_end - region->frames != j->table->frames ||
        copies->n_frames != j->table->n_start)
        return refuse(j, -ESTALE, "other copies of code lie where they would");
    if (j->table->code_end > region->code_size || j->table->frames_end > region->frames_size ||
        moved_frames_searched(j->table->n) > copies->names - region->frames)
        return refuse(j, -ENOSPC, "the region has no room for copies of code");
    return 0;
}

static void add_copy(struct joining *j, const struct later_object *object,
                     struct analysis_home *homes)
{
    const struct later_code *code = &object->code;
    uintptr_t at = j->copies->region.code + code->at;
    size_t i = j->n++;

    for (; i > j->copies->n && j->list[i - 1].at > at; i--)
        j->list[i] = j->list[i - 1];
    j->list[i] = (struct moved_fragment){
        .original = rimf_later_bias(j->image, object) + code->original,
        .at = at,
        .code = code->code,
        .size = code->size,
        .is_canonical = code->flags & FROZEN_MOVED,
        .homes = homes,
        .n_homes = code->n_homes,
    };
}

/* Pages of none are those of another. */
static int is_disjoint(const struct joining *j)
{
    for (size_t i = j->copies->n + 1; i < j->n; i++)
        if (rimf_page_down(j->list[i].at) < rimf_page_up(j->list[i - 1].at + j->list[i - 1].size))
            return 0;
    return 1;
}

static int make_list(struct joining *j)
{
    const struct later_header *h = j->later->header;
    size_t n = j->copies->n, more = 0;
    struct analysis_home *homes;

    for (uint32_t i = 0; i < h->n_objects; i++)
        more += later_has_copy(&j->later->objects[i]);
    j->list = rimf_heap_alloc(&j->image->heap,
                              (n + more) * sizeof *j->list + h->n_homes * sizeof *homes);
    if (!j->list)
        return refuse(j, -ENOMEM, "out of memory");
    memcpy(j->list, j->copies->list, n * sizeof *j->list);
    homes = (struct analysis_home *)(j->list + n + more);
    if (h->n_homes)
        memcpy(homes, j->later->homes, h->n_homes * sizeof *homes);
    j->n = n;
    for (uint32_t i = 0; i < h->n_objects; i++) {
        if (later_has_copy(&j->later->objects[i]))
            add_copy(j, &j->later->objects[i], homes);
        homes += j->later->objects[i].code.n_homes;
    }
    return is_disjoint(j) ? 0 : refuse(j, -EINVAL, "copies of code overlap");
}

long later_open_file(struct mvld_image *image, int folder, uint32_t user, const char *name,
                     const struct file_id *written, const char **why)
{
    struct frozen_file file = {.folder = folder, .user = user};

    return frozen_open_part(&file, image->sys, name, written, why);
}

/* The last step that can fail. */
static int map_table(struct joining *j, int folder, uint32_t user)
{
    const struct rimf_sys *sys = j->image->sys;
    long fd = later_open_file(j->image, folder, user, j->later->names + j->table->name,
                              &j->table->file, &j->why), at;

    if (sys_failed(fd))
        return (int)fd;
    at = sys_mmap(sys, j->copies->region.frames, moved_frames_searched(j->table->n), PROT_READ,
                  MAP_PRIVATE | MAP_FIXED, (int)fd, 0);
    sys_close(sys, (int)fd);
    return sys_failed(at) ? refuse(j, (int)at, "the unwind table cannot be mapped") : 0;
}

/* The old list is not released: a signal handler may stand in it. */
static void publish(struct joining *j)
{
    struct moved_code *copies = j->copies;

    for (size_t i = copies->n; i < j->n; i++)
        j->list[i].size = 0; /* nothing is there yet */
    copies->joined = copies->n;
    copies->joined_end = j->n;
    __atomic_store_n(&copies->list, j->list, __ATOMIC_RELEASE);
    copies->room = copies->n_planned = copies->n_named = j->n;
    copies->n_frames = j->table->n;
    copies->code_end = copies->region.code + j->table->code_end;
    copies->frames_end = copies->frames_named = copies->region.frames + j->table->frames_end;
    __atomic_store_n(&copies->n, j->n, __ATOMIC_RELEASE);
}

int rimf_later_join(struct mvld_image *image, const struct later *later, int folder,
                    uint32_t user, const char **why)
{
    struct joining j = {.image = image, .copies = image->moved, .later = later,
                        .table = &later->header->table};
    int error;

    if (file_id_is_none(&j.table->file))
        return 0;
    error = compare(&j);
    if (!error)
        error = make_list(&j);
    if (!error)
        error = map_table(&j, folder, user);
    if (error)
        rimf_heap_release(&image->heap, j.list);
    else
        publish(&j);
    *why = j.why;
    return error;
}

/* ---- one copy ------------------------------------------------------------------------------ */

struct moved_fragment *later_copy_of(const struct mvld_image *image, const struct later_object *object)
{
    struct moved_code *copies = image->moved;
    uintptr_t at = copies ? copies->region.code + object->code.at : 0;

    for (size_t i = copies ? copies->joined : 0; copies && i < copies->joined_end; i++) {
        struct moved_fragment *copy = &copies->list[i];

        if (copy->at == at)
            return copy->original == rimf_later_bias(image, object) + object->code.original &&
                           copy->code == object->code.code
                       ? copy
                       : NULL;
    }
    return NULL;
}

/* Where its pages are. */
struct pages {
    uintptr_t code, frames;
    size_t code_size, frames_size;
};

static struct pages pages_of(const struct mvld_image *image, const struct later_code *code)
{
    const struct rimf_region *region = &image->moved->region;
    uintptr_t at = region->code + code->at;

    return (struct pages){
        .code = rimf_page_down(at),
        .code_size = rimf_page_up(at + code->size) - rimf_page_down(at),
        .frames = region->frames + code->frames,
        .frames_size = rimf_page_up(code->frames_size),
    };
}

/* Nobody runs there. */
static void take_away(struct mvld_image *image, const struct later_object *object)
{
    struct pages pages = pages_of(image, &object->code);

    moved_pages_give_back(image, pages.code, pages.code + pages.code_size);
}

static long map_pages(struct mvld_image *image, const struct later_code *code, int fd)
{
    struct pages pages = pages_of(image, code);
    long at = 0;

    if (pages.frames_size)
        at = sys_mmap(image->sys, pages.frames, pages.frames_size, PROT_READ,
                      MAP_PRIVATE | MAP_FIXED, fd, code->offset + pages.code_size);
    if (!sys_failed(at))
        at = sys_mmap(image->sys, pages.code, pages.code_size, PROT_READ | PROT_EXEC,
                      MAP_PRIVATE | MAP_FIXED, fd, code->offset);
    if (!sys_failed(at))
        frozen_want_large(image->sys, image->filtered, pages.code, pages.code_size);
    return sys_failed(at) ? at : 0;
}

int later_map_copy(struct mvld_image *image, const struct later *later,
                   const struct later_object *entry, int folder, uint32_t user,
                   struct rimf_object *object, const char **why)
{
    struct moved_fragment *copy = later_copy_of(image, entry);
    long fd, error;

    *why = "out of memory";
    if (moved_note(image, object, (size_t)(copy - image->moved->list)))
        return -ENOMEM;
    fd = later_open_file(image, folder, user, later->names + entry->code.name, &entry->code.file,
                         why);
    error = sys_failed(fd) ? fd : map_pages(image, &entry->code, (int)fd);
    if (!sys_failed(fd)) {
        sys_close(image->sys, (int)fd);
        *why = "copies of its code cannot be mapped";
    }
    if (error) {
        moved_drop(image, object);
        return (int)error;
    }
    copy->object = object;
    __atomic_store_n(&copy->size, entry->code.size, __ATOMIC_RELEASE);
    return 0;
}

void later_unmap_copy(struct mvld_image *image, const struct later_object *entry,
                      struct rimf_object *object)
{
    struct moved_fragment *copy = later_copy_of(image, entry);

    __atomic_store_n(&copy->size, 0, __ATOMIC_RELEASE);
    moved_drop(image, object);
    take_away(image, entry);
}

void rimf_later_forget(struct mvld_image *image, const struct mvld_object *public)
{
    const struct rimf_object *object = rimf_object_of(public);

    if (object->moved && object->moved - 1 >= image->moved->joined &&
        object->moved - 1 < image->moved->joined_end)
        rimf_moved_forget(image, public);
}
