/* SPDX-License-Identifier: MIT
 *
 * rimf/store/apply_moved.c: copies of code come back (moved/moved.h, store/manifest.h).
 *
 * The pages are mapped over the region that a library has reserved; the image learns which
 * code has a copy, as if it had been copied here; the C library's questions about addresses
 * in copies are answered.  Nothing leads to a copy yet: that is in the texts and words, which come
 * after.  So any failure takes the pages away again, and the image forgets.
 */
#include "rimf/store/apply.h"

#include "rimf/base/base.h"
#include "rimf/moved/moved.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

static const struct mvld_object *owner(const struct applying *a)
{
    return &a->objects[a->m->region->object]->public;
}

static struct mvld_region region_of(const struct applying *a)
{
    const struct manifest_region *r = a->m->region;

    return (struct mvld_region){
        .code = owner(a)->bias + r->code,
        .frames = owner(a)->bias + r->frames,
        .code_size = r->code_size,
        .frames_size = r->frames_size,
    };
}

/* ---- comparing --------------------------------------------------------------------- */

static int compare_kept(struct applying *a)
{
    for (uint32_t i = 0; i < a->m->header->n_kept; i++) {
        const struct manifest_kept *kept = &a->m->kept[i];
        const struct rimf_object *object = a->objects[kept->object];

        if (!elf_holds(&object->view, object->public.bias + kept->linked, kept->size,
                       PROT_READ | PROT_EXEC))
            return apply_refuse(a, object, "a function that answers lies outside it");
    }
    return 0;
}

int apply_compare_moved(struct applying *a)
{
    const struct manifest_region *r = a->m->region;
    struct mvld_region region;

    if (!r)
        return 0;
    region = region_of(a);
    if (a->image->copies || !a->image->answers)
        return apply_refuse(a, NULL, "nobody tells the C library of copies of code");
    /* Later copies go on where these end. */
    if (r->pieces[MANIFEST_TABLE].size != copy_frames_searched(r->n_frames) ||
        r->pieces[MANIFEST_FRAMES].linked != r->frames + copy_frames_table(&region))
        return apply_refuse(a, NULL, "its unwind tables lie elsewhere than they should");
    for (uint32_t i = 0; i < a->m->header->n_copies; i++) {
        const struct manifest_copy *copy = &a->m->copies[i];
        const struct rimf_object *object = a->objects[copy->object];
        uintptr_t home = object->public.bias + copy->home;

        if (object->public.why || !copies_fit_home(object, home, copy->code))
            return apply_refuse(a, object, "code that was copied lies outside it");
        if ((home - (owner(a)->bias + copy->at)) % RIMF_COPY_ALIGN)
            return apply_refuse(a, object, "the copy of its code is at no fitting place");
    }
    return compare_kept(a);
}

/* ---- the image ------------------------------------------------------------------------- */

/* Nobody else has seen them. */
static void forget(struct applying *a)
{
    struct rimf_copies *copies = a->image->copies;

    __atomic_store_n(&a->image->copies, NULL, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < a->m->header->n_copies; i++)
        copies_drop(a->image, a->objects[a->m->copies[i].object]);
    if (copies)
        rimf_heap_release(&a->image->heap, copies->list);
    rimf_heap_release(&a->image->heap, copies);
}

/* Sorted, because other threads may look for them later. */
static int note_fragments(struct applying *a)
{
    for (uint32_t i = 0; i < a->m->header->n_copies; i++) {
        uint32_t index = a->m->copies[i].sorted;
        struct rimf_object *object = a->objects[a->m->copies[index].object];

        if (copies_note(a->image, object, index))
            return -ENOMEM;
        object->copy = index + 1 < object->copy ? index + 1 : object->copy; /* the first in the list */
        object->fragments_sorted = 1;
    }
    return 0;
}

static int fill_list(struct applying *a, struct rimf_copies *copies)
{
    size_t n = a->m->header->n_copies, n_homes = a->m->header->n_homes;
    struct analysis_home *homes;

    copies->list = rimf_heap_alloc(&a->image->heap,
                                   n * sizeof *copies->list + n_homes * sizeof *homes);
    if (!copies->list)
        return -ENOMEM;
    copies->room = n;
    homes = memcpy(copies->list + n, a->m->homes, n_homes * sizeof *homes);
    for (size_t i = 0; i < n; i++) {
        const struct manifest_copy *copy = &a->m->copies[i];
        struct rimf_object *object = a->objects[copy->object];

        copies->list[i] = (struct rimf_copy){
            .object = object,
            .home = object->public.bias + copy->home,
            .at = owner(a)->bias + copy->at,
            .code = copy->code,
            .size = copy->size,
            .moved = copy->flags & MANIFEST_MOVED,
            .homes = homes,
            .n_homes = copy->n_homes,
        };
        homes += copy->n_homes;
    }
    return note_fragments(a);
}

static int remember(struct applying *a)
{
    const struct manifest_piece *pieces = a->m->region->pieces;
    struct mvld_region region = region_of(a);
    struct rimf_copies *copies;
    int error = rimf_region_set(a->image, &region);

    if (error) {
        a->why = "there is no room for copies of code";
        return error;
    }
    for (uint32_t i = 0; i < a->m->header->n_kept; i++) {
        const struct manifest_kept *kept = &a->m->kept[i];

        rimf_image_keep_home(a->image, kept->number,
                             a->objects[kept->object]->public.bias + kept->linked,
                             kept->size);
    }
    copies = a->image->copies;
    error = fill_list(a, copies);
    if (error) {
        a->why = a->why ? a->why : "out of memory";
        forget(a);
        return error;
    }
    copies->pages = a->m->region->pages;
    copies->hot_end = a->m->region->hot ? region.code + a->m->region->hot : 0;
    copies->n_frames = a->m->region->n_frames;
    copies->code_end = region.code + pieces[MANIFEST_CODE].size;
    copies->frames_end =
        owner(a)->bias + pieces[MANIFEST_FRAMES].linked + pieces[MANIFEST_FRAMES].size;
    copies->n_named = copies->n_planned = copies->room; /* the file has their names (symfile.h) */
    copies->frames_named = copies->frames_end;
    __atomic_store_n(&copies->n, copies->room, __ATOMIC_RELEASE);
    return 0;
}

/* ---- the pages --------------------------------------------------------------------------- */

/* Words that lead there already are led home first, by who had them led (manifest_take_back), and
 * resolvers may have kept addresses. */
static void take_away(struct applying *a)
{
    if (!a->file->laid.led)
        manifest_region_unmap(a->file, a->image->sys, owner(a)->bias);
}

static int enlarge(struct applying *a)
{
    const struct manifest_piece *code = &a->m->region->pieces[MANIFEST_CODE];
    uintptr_t start = owner(a)->bias + code->linked;
    long error = copy_pages_of_file(a->image, start, start + code->size, code->offset);

    if (error) {
        take_away(a);
        a->why = "copies of code cannot be put into huge pages";
    }
    return (int)error;
}

static int map_file(struct applying *a)
{
    int error = a->file->laid.led
                    ? 0 : manifest_region_map(a->file, a->image->sys, owner(a)->bias, &a->why);

    return error ? error : enlarge(a);
}

static void tell(const struct applying *a)
{
    const struct rimf_copies *copies = a->image->copies;

    for (size_t i = 0; i < copies->n && rimf_log_enabled(a->image->log, MVLD_LOG_PASSES); i++)
        if (copies_is_first(copies, i))
            copies_report(a->image, copies->list[i].object);
}

int apply_moved(struct applying *a)
{
    int error;

    if (!a->m->region)
        return 0;
    a->object = NULL;
    a->why = NULL;
    error = remember(a);
    if (error)
        return error;
    error = map_file(a);
    if (!error) {
        a->why = "nobody tells the C library of copies of code";
        a->image->applying = a;
        error = a->image->answers(a->image->answers_cookie, &a->why);
        a->image->applying = NULL;
        if (!error && (error = apply_answers(a)))
            a->image->answers = NULL; /* some of them may lack: then nothing is copied */
        if (error)
            take_away(a);
    }
    if (error)
        forget(a);
    else
        tell(a);
    return error;
}
