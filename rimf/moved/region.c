/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/region.c: the region for moved code, and the origin of its addresses (moved/moved.h has the
 * picture).
 */
#include "rimf/moved/moved.h"

#include "rimf/base/base.h"
#include "rimf/image/private.h"
#include "rimf/moved/symfile.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

/* ---- the region -------------------------------------------------------------------- */

/* Whether it is memory that an object reserved and nobody uses: a segment without rights.  A readable one is
 * fine, too: unwinders that come too early read zeros, without a fault. */
static int is_reserved(const struct mvld_image *image, uintptr_t start, size_t size)
{
    const struct mvld_object *object = rimf_object_find(image, start);
    const struct mvld_segment *s = object ? elf_segment_at(&rimf_object_of(object)->view, start) : NULL;

    return s && !(s->prot & ~(uint32_t)PROT_READ) && size <= s->end - start;
}

int rimf_region_set(struct mvld_image *image, const struct rimf_region *region)
{
    struct moved_code *moved;

    if (image->moved)
        return rimf_fail(image, EEXIST, "there is a region for moved code already");
    if ((region->code | region->frames | region->code_size | region->frames_size) % RIMF_PAGE ||
        !region->code_size || !region->frames_size ||
        !is_reserved(image, region->code, region->code_size) ||
        !is_reserved(image, region->frames, region->frames_size))
        return rimf_fail(image, EINVAL, "the region at %p is no reserved memory of an object",
                         (void *)region->code);
    moved = rimf_heap_alloc(&image->heap, sizeof *moved);
    if (!moved)
        return rimf_fail(image, ENOMEM, "there is no memory to note moved code");
    moved->region = *region;
    moved->find = rimf_moved_find;
    moved->code_end = moved->first = region->code;
    moved->frames_end = region->frames;
    moved->names = moved->frames_named = region->frames + moved_frames_table(region);
    __atomic_store_n(&image->moved, moved, __ATOMIC_RELEASE);
    return 0;
}

/* It is in the global scope, unless it was left out. */
int moved_library(const struct mvld_image *image, struct mvld_symbol *code, struct mvld_symbol *frames)
{
    return rimf_symbol_resolve(image, "mvld_moved_code", NULL, code) ||
           rimf_symbol_find(code->object, "mvld_moved_frames", NULL, frames) ? -ENOENT : 0;
}

static const char *find_region(struct mvld_image *image)
{
    struct mvld_symbol code, frames;

    if (image->entered || moved_library(image, &code, &frames))
        return "the library to which code moves (libconcat.so.1) is not in the program";
    return rimf_region_set(image, &(struct rimf_region){code.address, frames.address, code.size,
                                                        frames.size})
               ? "the library to which code moves is not what it should be" : NULL;
}

struct moved_code *moved_region(struct mvld_image *image, const char **why)
{
    *why = image->moved ? NULL : find_region(image);
    return *why ? NULL : image->moved;
}

int rimf_region_open(const struct mvld_context *ctx, enum mvld_pages pages, uint32_t names,
                     const char **why)
{
    struct mvld_image *image = rimf_context_image(ctx);
    int error = why ? rimf_only_in(image, RIMF_STAGE_RUN, ctx ? ctx->pass : "") : -EINVAL;

    if (why)
        *why = "code moves in the stage run alone";
    if (error)
        return error;
    *why = rimf_auditor(image);
    if (*why || !moved_region(image, why))
        return -ENODATA;
    if (!image->moved->n)
        moved_pages_wanted(image, pages);
    image->moved->mover = ctx;
    image->moved->names_for = names;
    return 0;
}

/* ---- look-up ------------------------------------------------------------------------- */

/* The addresses are not reused: the unwind table is sorted, and others read it.  Its entries lead to zeros then, which
 * describe nothing. */
static void give_back(struct mvld_image *image, struct moved_batch *batch)
{
    moved_names_forget(image, batch);
    moved_pages_small(image, batch->code, batch->code_end, PROT_NONE);
    moved_pages_small(image, batch->frames, batch->frames_end, PROT_READ);
    rimf_heap_release(&image->heap, batch);
}

void rimf_moved_forget(struct mvld_image *image, const struct mvld_object *public)
{
    const struct rimf_object *object = rimf_object_of(public);
    struct moved_fragment *list;
    struct moved_batch *batch;

    if (!object->moved)
        return;
    list = image->moved->list;
    batch = list[object->moved - 1].batch;
    for (size_t i = 0; i < object->n_fragments; i++) {
        list[object->fragments[i].index].batch = NULL;
        __atomic_store_n(&list[object->fragments[i].index].size, 0, __ATOMIC_RELEASE);
    }
    if (batch && !--batch->n_objects)
        give_back(image, batch);
}
