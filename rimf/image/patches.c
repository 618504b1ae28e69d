/* SPDX-License-Identifier: MIT
 *
 * rimf/image/patches.c: what the patch engine needs to know of the image.
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
    if (rimf_original_of(cookie, address))
        return ((struct mvld_image *)cookie)->moved->code_at(cookie, address, out);
    segment = elf_segment_at(&rimf_object_of(object)->view, address);
    if (!segment)
        return -ENOENT;
    *out = *segment;
    return 0;
}

static void host_say(void *cookie, int err, const char *format, va_list args)
{
    struct mvld_image *image = cookie;

    if (err)
        rimf_vfail(image, err, format, args);
    else
        rimf_vlog(image->log, MVLD_LOG_PATCH, format, args);
}

/* The engine of this image; made by the first who asks, of several at once. */
static struct rimf_patcher *patcher_of(struct mvld_image *image)
{
    struct rimf_patch_host host = {
        .sys = image->sys,
        .lock = &image->patch_lock,
        .cookie = image,
        .alloc = host_alloc,
        .release = host_release,
        .segment = host_segment,
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

void rimf_patch_often(struct mvld_image *image)
{
    struct rimf_patcher *patcher = patcher_of(image);

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
