/* SPDX-License-Identifier: MIT
 *
 * rimf/image/patches.c: what the patch engine must know about the image.
 */
#include "rimf/image/original.h"
#include "rimf/image/private.h"

#include "rimf/patch/patch.h"

#include <errno.h> /* numbers only */

static void *host_alloc(void *cookie, size_t size)
{
    return rimf_heap_alloc(&((struct mvld_image *)cookie)->heap, size);
}

static void host_release(void *cookie, void *memory)
{
    rimf_heap_release(&((struct mvld_image *)cookie)->heap, memory);
}

static int host_segment(void *cookie, uintptr_t address, struct mvld_segment *out)
{
    const struct mvld_object *object = rimf_object_find(cookie, address);
    const struct mvld_segment *segment;

    if (!object || object->flags & MVLD_OBJECT_VDSO)
        return -ENOENT;
    if (rimf_original_of(cookie, address)) {
        *out = rimf_moved_segment(((struct mvld_image *)cookie)->moved);
        return 0;
    }
    segment = elf_segment_at(&rimf_object_of(object)->view, address);
    if (!segment)
        return -ENOENT;
    *out = *segment;
    if (((struct mvld_image *)cookie)->stage == RIMF_STAGE_RUN) {
        ((struct rimf_object *)rimf_object_of(object))->code.patched |= OBJECT_PATCHED;
        ((struct rimf_object *)rimf_object_of(object))->code.patched_by = ((struct mvld_image *)cookie)->running;
    }
    return 0;
}

/* If the bytes belong to several functions, the first or the last function may have moved. */
static uintptr_t host_copy(void *cookie, uintptr_t address, size_t length)
{
    const struct mvld_image *image = cookie;
    const struct moved_code *moved = __atomic_load_n(&image->moved, __ATOMIC_ACQUIRE);
    uintptr_t copy = 0;

    if (moved && moved->find(image, address, length, &copy) != 2 && !copy)
        moved->find(image, address, 1, &copy);
    if (moved && !copy && moved->find(image, address + length - 1, 1, &copy) != 2 && copy)
        copy -= length - 1;
    return copy;
}

static void host_say(void *cookie, int err, const char *format, va_list args)
{
    struct mvld_image *image = cookie;

    if (err)
        rimf_vfail(image, err, format, args);
    else
        rimf_vlog(image->log, MVLD_LOG_PATCH, format, args);
}

/* The engine of this image; the first of several concurrent callers makes it. */
static struct rimf_patcher *patcher_of(struct mvld_image *image)
{
    struct rimf_patch_host host = {
        .sys = image->sys,
        .lock = &image->patch_lock,
        .cookie = image,
        .alloc = host_alloc,
        .release = host_release,
        .segment = host_segment,
        .copy = host_copy,
        .say = host_say,
    };
    struct rimf_patcher *patcher = __atomic_load_n(&image->patcher, __ATOMIC_ACQUIRE), *made;

    if (patcher)
        return patcher;
    made = rimf_patcher_create(&host);
    if (!made)
        return NULL;
    if (__atomic_compare_exchange_n(&image->patcher, &patcher, made, 0, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
        return made;
    rimf_patcher_destroy(made);
    return patcher;
}

struct mvld_batch *rimf_patch_begin(struct mvld_image *image)
{
    struct rimf_patcher *patcher = patcher_of(image);

    return patcher ? rimf_patcher_begin(patcher) : NULL;
}

struct mvld_batch *rimf_api_patch_begin(struct mvld_image *image)
{
    struct mvld_batch *batch = NULL;

    if (!image)
        return NULL;
    if (image->stage == RIMF_STAGE_MAP || image->stage == RIMF_STAGE_RELOCATE)
        rimf_fail(image, EPERM, "code is changed in the stage run, or later");
    else
        batch = rimf_patch_begin(image);
    if (batch)
        rimf_patch_all_copies(batch);
    return batch;
}

void rimf_patch_often(struct mvld_image *image)
{
    struct rimf_patcher *patcher = image ? patcher_of(image) : NULL;

    if (patcher)
        rimf_patcher_often(patcher);
}

int rimf_image_set_patch_method(struct mvld_image *image, const char *name)
{
    struct rimf_patcher *patcher = patcher_of(image);

    return patcher ? rimf_patcher_set_method(patcher, name) : -ENOMEM;
}

void rimf_patch_forget(struct mvld_image *image)
{
    rimf_patcher_destroy(image->patcher);
    image->patcher = NULL;
}
