/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/region.c: the region for copies of code, and which code an address in it is a copy
 * of (moved/moved.h has the picture).
 */
#include "rimf/moved/moved.h"

#include "rimf/base/base.h"
#include "rimf/image/private.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

_Static_assert(sizeof((struct mvld_image *)0)->kept_home / sizeof(uintptr_t) == RIMF_KEPT_HOME,
               "a place for each number");

void rimf_image_set_caller_hooks(struct mvld_image *image, int (*answers)(void *cookie, const char **why),
                            void *cookie)
{
    image->answers = answers;
    image->answers_cookie = cookie;
}

void rimf_image_describe(struct mvld_image *image, const struct rimf_described *list, size_t n)
{
    struct rimf_described *own = rimf_heap_alloc(&image->heap, n * sizeof *own);

    if (!own)
        return; /* unwinders find the end of the stack there */
    image->described = memcpy(own, list, n * sizeof *own);
    image->n_described = n;
}

void rimf_image_set_unentered(struct mvld_image *image, int unentered)
{
    image->unentered = unentered;
}

int rimf_is_kept_home(const struct mvld_image *image, uintptr_t function)
{
    for (size_t i = 0; i < RIMF_KEPT_HOME; i++)
        if (image->kept_home[i] == function)
            return 1;
    return 0;
}

void rimf_image_keep_home(struct mvld_image *image, unsigned number, uintptr_t function,
                          size_t size)
{
    image->kept_home[number] = function;
    image->kept_sizes[number] = size;
}

uintptr_t rimf_image_kept_home(const struct mvld_image *image, unsigned number, size_t *size)
{
    *size = image->kept_sizes[number];
    return image->kept_home[number];
}

/* ---- the region -------------------------------------------------------------------- */

/* Memory that an object reserved and nobody uses: a segment without rights.  One that can be
 * read is as good: unwinders that come too early find zeros there, and no fault. */
static int is_reserved(const struct mvld_image *image, uintptr_t start, size_t size)
{
    const struct mvld_object *object = rimf_object_find(image, start);

    for (size_t i = 0; object && i < object->n_segments; i++) {
        const struct mvld_segment *s = &object->segments[i];

        if (!(s->prot & ~(uint32_t)PROT_READ) && start >= s->start && start < s->end &&
            size <= s->end - start)
            return 1;
    }
    return 0;
}

static int code_at(struct mvld_image *, uintptr_t address, struct mvld_segment *out);

int rimf_region_set(struct mvld_image *image, const struct mvld_region *region)
{
    struct rimf_copies *copies;

    if (image->copies)
        return rimf_fail(image, EEXIST, "there is a region for copies of code already");
    if ((region->code | region->frames | region->code_size | region->frames_size) % RIMF_PAGE ||
        !region->code_size || !region->frames_size ||
        !is_reserved(image, region->code, region->code_size) ||
        !is_reserved(image, region->frames, region->frames_size))
        return rimf_fail(image, EINVAL, "the region at %p is no reserved memory of an object",
                         (void *)region->code);
    copies = rimf_heap_alloc(&image->heap, sizeof *copies);
    if (!copies)
        return rimf_fail(image, ENOMEM, "there is no memory to note copies of code");
    copies->region = *region;
    copies->code_at = code_at;
    copies->code_end = region->code;
    copies->frames_end = region->frames;
    copies->names = copies->frames_named = region->frames + copy_frames_table(region);
    __atomic_store_n(&image->copies, copies, __ATOMIC_RELEASE);
    return 0;
}

/* ---- look-up ------------------------------------------------------------------------- */

uintptr_t copies_word(const struct mvld_image *image, uintptr_t word)
{
    uintptr_t value, home;

    memcpy(&value, (const void *)word, sizeof value);
    home = rimf_copy_home(image, value);
    return home ? home : value;
}

/* How far memory reaches that is there. */
static uintptr_t end_of(const struct rimf_copies *copies)
{
    size_t n = __atomic_load_n(&copies->n, __ATOMIC_ACQUIRE);
    const struct rimf_copy *last = __atomic_load_n(&copies->list, __ATOMIC_ACQUIRE) + n - 1;

    return rimf_page_up(last->at + last->size);
}

static int code_at(struct mvld_image *image, uintptr_t address, struct mvld_segment *out)
{
    const struct rimf_copies *copies = image->copies;
    int error = copy_pages_soften(image, address);

    if (!error) /* a patch may reach into the next page */
        error = copy_pages_soften(image, address + MVLD_PATCH_MAX);
    *out = (struct mvld_segment){
        .start = rimf_page_down(address),
        .end = copy_pages_next(copies, address, end_of(copies)),
        .prot = PROT_READ | PROT_EXEC,
    };
    return error;
}

uintptr_t rimf_copy_of(struct mvld_image *image, uintptr_t home)
{
    struct rimf_object *object = (struct rimf_object *)rimf_object_of(rimf_object_find(image, home));
    const struct rimf_copy *copy;
    const struct analysis_unit *unit;
    const struct analysis *analysis;

    if (!object || !object->copy)
        return 0;
    copy = copies_fragment(image->copies, object, home);
    analysis = copy ? rimf_analysis_units(image, object) : NULL;
    unit = analysis ? analysis_unit_at(analysis, (uint32_t)(home - object->view.bias)) : NULL;
    return unit && unit->reason == ANALYSIS_PROVEN ? copy->at + (home - copy->home) : 0;
}

/* Memory of places first to last in the list, which are of one object, but for pages that they
 * may share with their neighbours.  The place stays taken: the unwind table is sorted, and others read it. */
static void give_back(struct mvld_image *image, size_t first, size_t last)
{
    const struct rimf_copies *copies = image->copies;
    uintptr_t start = copies->list[first].at, end = copies->list[last].at + copies->list[last].size;

    copy_pages_give_back(image, rimf_page_up(start), rimf_page_down(end));
}

void rimf_copies_forget(struct mvld_image *image, const struct mvld_object *public)
{
    const struct rimf_object *object = rimf_object_of(public);
    struct rimf_copy *list;
    size_t n;

    if (!object->copy)
        return;
    list = image->copies->list;
    n = image->copies->n;
    for (size_t first = object->copy - 1, last; first < n; first = last + 1) {
        for (last = first; last + 1 < n && list[first].size && list[first].object == object &&
                           list[last + 1].size && list[last + 1].object == object;)
            last++;
        if (list[first].size && list[first].object == object)
            give_back(image, first, last);
    }
    for (size_t i = 0; i < object->n_fragments; i++)
        __atomic_store_n(&list[object->fragments[i]].size, 0, __ATOMIC_RELEASE);
}
