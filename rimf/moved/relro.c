/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/relro.c: makes words that the host loader protected after relocation (RELRO) writable for a
 * moment (moved/moved.h).
 */
#include "rimf/moved/moved.h"

#include "rimf/base/base.h"
#include "rimf/image/private.h"
#include "rimf/patch/private.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

static int protect(const struct mvld_image *image, const struct rimf_object *object, int prot)
{
    uintptr_t start;
    size_t size = elf_relro(&object->view, &start);

    return size && sys_failed(sys_mprotect(image->sys, start, size, prot)) ? -EPERM : 0;
}

int moved_relro_open_one(const struct mvld_image *image, struct rimf_object *object)
{
    int error = object->relro.open ? 0 : protect(image, object, PROT_READ | PROT_WRITE);

    object->relro.open = !error;
    return error;
}

/* The host loader protects RELRO after relocating an object.  It has not yet done so if a program's malloc,
 * called inside one dlopen, calls another: the inner one's objects are announced while the outer one's are
 * still to be written. */
int moved_relro_is_relocated(struct mvld_image *image, const struct rimf_object *object)
{
    struct patch_maps *maps;
    struct patch_vma vma = {.prot = PROT_WRITE};
    uintptr_t start;

    if (!elf_relro(&object->view, &start))
        return 1;
    maps = rimf_heap_alloc(&image->heap, sizeof *maps);
    if (maps && !patch_maps_open(maps, image->sys)) {
        if (patch_maps_find(maps, start, &vma, NULL, 0))
            vma.prot = PROT_WRITE;
        patch_maps_close(maps);
    }
    rimf_heap_release(&image->heap, maps);
    return !(vma.prot & PROT_WRITE);
}

void moved_relro_close(struct mvld_image *image, const struct rimf_table *table)
{
    for (size_t i = 0; i < table->n_objects; i++) {
        struct rimf_object *object = table->objects[i];

        if (object->relro.open && protect(image, object, PROT_READ))
            rimf_log(image->log, MVLD_LOG_WARNING, "%s: its RELRO stays writable",
                     object->public.name);
        object->relro.open = 0;
    }
}

const char *moved_relro_open(struct mvld_image *image, const struct rimf_table *table)
{
    const char *why = NULL;

    for (size_t i = 0; i < table->n_objects && !why; i++) {
        struct rimf_object *object = table->objects[i];

        if (!moved_slots_held(object))
            continue;
        if (image->entered && !moved_relro_is_relocated(image, object))
            why = "an object is not relocated yet";
        else if (moved_relro_open_one(image, object))
            why = "RELRO cannot be written";
    }
    if (why)
        moved_relro_close(image, table);
    return why;
}
