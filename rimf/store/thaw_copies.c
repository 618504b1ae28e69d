/* SPDX-License-Identifier: MIT
 *
 * rimf/store/thaw_copies.c: copies of code come back (moved/moved.h, frozen.h).
 *
 * The pages are mapped over the region that a library has reserved; the image learns which
 * code has a copy, as if it had been copied here; the C library's questions about addresses
 * in copies are answered.  Nothing leads to a copy yet: that is in the texts and words, which come
 * after.  So any failure takes the pages away again, and the image forgets.
 */
#include "rimf/store/thaw.h"

#include "rimf/base/base.h"
#include "rimf/moved/moved.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

static const struct mvld_object *owner(const struct thaw *t)
{
    return &t->table->objects[t->frozen->region->object]->public;
}

static struct rimf_region region_of(const struct thaw *t)
{
    const struct frozen_region *r = t->frozen->region;

    return (struct rimf_region){
        .code = owner(t)->bias + r->code,
        .frames = owner(t)->bias + r->frames,
        .code_size = r->code_size,
        .frames_size = r->frames_size,
    };
}

/* ---- comparing --------------------------------------------------------------------- */

static int compare_kept(struct thaw *t)
{
    for (uint32_t i = 0; i < t->frozen->header->n_kept; i++) {
        const struct frozen_kept *kept = &t->frozen->kept[i];
        const struct rimf_object *object = t->table->objects[kept->object];

        if (!elf_holds(&object->view, object->public.bias + kept->linked, kept->size,
                       PROT_READ | PROT_EXEC))
            return thaw_refuse(t, object, "a function that answers lies outside it");
    }
    return 0;
}

int thaw_compare_copies(struct thaw *t)
{
    const struct frozen_region *r = t->frozen->region;
    struct rimf_region region;

    if (!r)
        return 0;
    region = region_of(t);
    if (t->image->moved || !t->image->answers)
        return thaw_refuse(t, NULL, "nobody tells the C library of copies of code");
    /* Later copies go on where these end. */
    if (r->pieces[FROZEN_TABLE].size != moved_frames_searched(r->n_frames) ||
        r->pieces[FROZEN_FRAMES].linked != r->frames + moved_frames_table(&region))
        return thaw_refuse(t, NULL, "its unwind tables lie elsewhere than they should");
    for (uint32_t i = 0; i < t->frozen->header->n_copies; i++) {
        const struct frozen_copy *copy = &t->frozen->copies[i];
        const struct rimf_object *object = t->table->objects[copy->object];
        uintptr_t home = object->public.bias + copy->original;

        if (object->public.why || !moved_fits(object, home, copy->code))
            return thaw_refuse(t, object, "code that was copied lies outside it");
        if ((home - (owner(t)->bias + copy->at)) % RIMF_MOVED_ALIGN)
            return thaw_refuse(t, object, "the copy of its code is at no fitting place");
    }
    return compare_kept(t);
}

/* ---- the image ------------------------------------------------------------------------- */

/* Nobody else has seen them. */
static void forget(struct thaw *t)
{
    struct moved_code *copies = t->image->moved;

    __atomic_store_n(&t->image->moved, NULL, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < t->frozen->header->n_copies; i++)
        moved_drop(t->image, t->table->objects[t->frozen->copies[i].object]);
    if (copies)
        rimf_heap_release(&t->image->heap, copies->list);
    rimf_heap_release(&t->image->heap, copies);
}

/* Sorted, because other threads may look for them later. */
static int note_fragments(struct thaw *t)
{
    for (uint32_t i = 0; i < t->frozen->header->n_copies; i++) {
        uint32_t index = t->frozen->copies[i].sorted;
        struct rimf_object *object = t->table->objects[t->frozen->copies[index].object];

        if (moved_note(t->image, object, index))
            return -ENOMEM;
        object->moved = index + 1 < object->moved ? index + 1 : object->moved; /* the first in the list */
        object->fragments_sorted = 1;
    }
    return 0;
}

static int fill_list(struct thaw *t, struct moved_code *copies)
{
    size_t n = t->frozen->header->n_copies, n_homes = t->frozen->header->n_homes;
    struct analysis_home *homes;

    copies->list = rimf_heap_alloc(&t->image->heap,
                                   n * sizeof *copies->list + n_homes * sizeof *homes);
    if (!copies->list)
        return -ENOMEM;
    copies->room = n;
    homes = memcpy(copies->list + n, t->frozen->homes, n_homes * sizeof *homes);
    for (size_t i = 0; i < n; i++) {
        const struct frozen_copy *copy = &t->frozen->copies[i];
        struct rimf_object *object = t->table->objects[copy->object];

        copies->list[i] = (struct moved_fragment){
            .object = object,
            .original = object->public.bias + copy->original,
            .at = owner(t)->bias + copy->at,
            .code = copy->code,
            .size = copy->size,
            .is_canonical = copy->flags & FROZEN_MOVED,
            .homes = homes,
            .n_homes = copy->n_homes,
        };
        homes += copy->n_homes;
    }
    return note_fragments(t);
}

static int remember(struct thaw *t)
{
    const struct frozen_piece *pieces = t->frozen->region->pieces;
    struct rimf_region region = region_of(t);
    struct moved_code *copies;
    int error = rimf_region_set(t->image, &region);

    if (error) {
        t->why = "there is no room for copies of code";
        return error;
    }
    for (uint32_t i = 0; i < t->frozen->header->n_kept; i++) {
        const struct frozen_kept *kept = &t->frozen->kept[i];

        rimf_image_keep_original(t->image, kept->number,
                             t->table->objects[kept->object]->public.bias + kept->linked,
                             kept->size);
    }
    copies = t->image->moved;
    error = fill_list(t, copies);
    if (error) {
        t->why = t->why ? t->why : "out of memory";
        forget(t);
        return error;
    }
    copies->pages = t->frozen->region->pages;
    copies->hot_end = t->frozen->region->hot ? region.code + t->frozen->region->hot : 0;
    copies->n_frames = t->frozen->region->n_frames;
    copies->code_end = region.code + pieces[FROZEN_CODE].size;
    copies->frames_end =
        owner(t)->bias + pieces[FROZEN_FRAMES].linked + pieces[FROZEN_FRAMES].size;
    copies->n_named = copies->n_planned = copies->room; /* the file has their names (symfile.h) */
    copies->frames_named = copies->frames_end;
    __atomic_store_n(&copies->n, copies->room, __ATOMIC_RELEASE);
    return 0;
}

/* ---- the pages --------------------------------------------------------------------------- */

/* Words that lead there already are led home first, by who had them led (frozen_take_back), and
 * resolvers may have kept addresses. */
static void take_away(struct thaw *t)
{
    if (!t->file->laid.led)
        frozen_region_unmap(t->file, t->image->sys, owner(t)->bias);
}

static int enlarge(struct thaw *t)
{
    const struct frozen_piece *code = &t->frozen->region->pieces[FROZEN_CODE];
    uintptr_t start = owner(t)->bias + code->linked;
    long error = moved_pages_of_file(t->image, start, start + code->size, code->offset);

    if (error) {
        take_away(t);
        t->why = "copies of code cannot be put into huge pages";
    }
    return (int)error;
}

static int map_file(struct thaw *t)
{
    int error = t->file->laid.led
                    ? 0 : frozen_region_map(t->file, t->image->sys, owner(t)->bias, &t->why);

    return error ? error : enlarge(t);
}

static void tell(const struct thaw *t)
{
    const struct moved_code *copies = t->image->moved;

    for (size_t i = 0; i < copies->n && rimf_log_enabled(t->image->log, MVLD_LOG_PASSES); i++)
        if (moved_is_first(copies, i))
            moved_report(t->image, copies->list[i].object);
}

int thaw_copies(struct thaw *t)
{
    int error;

    if (!t->frozen->region)
        return 0;
    t->object = NULL;
    t->why = NULL;
    error = remember(t);
    if (error)
        return error;
    error = map_file(t);
    if (!error) {
        t->why = "nobody tells the C library of copies of code";
        t->image->thawing = t;
        error = t->image->answers(t->image->answers_cookie, &t->why);
        t->image->thawing = NULL;
        if (!error && (error = thaw_answers(t)))
            t->image->answers = NULL; /* some of them may lack: then nothing is copied */
        if (error)
            take_away(t);
    }
    if (error)
        forget(t);
    else
        tell(t);
    return error;
}
