/* SPDX-License-Identifier: MIT
 *
 * rimf/image/new_sections.c: code and data that passes add, near the program.
 *
 * The feeder knows where there is room within reach of the objects' calls.  A section of code can be
 * written, and not executed, until the pass has returned; then it is executed, and never written again.
 */
#include "rimf/image/private.h"

#include "rimf/base/base.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

struct new_section {
    struct new_section *next;
    const struct mvld_context *owner;
    uintptr_t at;
    size_t size;
    int code, sealed;
};

void rimf_image_set_room(struct mvld_image *image, long (*room)(void *cookie, size_t size), void *cookie)
{
    image->room = room;
    image->room_cookie = cookie;
}

void *rimf_section_add(const struct mvld_context *ctx, enum mvld_section_kind kind, size_t size)
{
    struct mvld_image *image = ctx->image;
    struct new_section *section;
    long at;

    if (kind != MVLD_SECTION_CODE && kind != MVLD_SECTION_DATA)
        return rimf_fail(image, EINVAL, "%s: a section of an unknown kind", ctx->pass), NULL;
    if (!size || size > MVLD_SECTION_MAX)
        return rimf_fail(image, EINVAL, "%s: a section of %zu bytes", ctx->pass, size), NULL;
    if (image->watch)
        return rimf_fail(image, ENOTSUP, "%s: no frozen image holds sections that passes add", ctx->pass), NULL;
    section = rimf_heap_alloc(&image->heap, sizeof *section);
    size = rimf_page_up(size);
    at = section && image->room ? image->room(image->room_cookie, size) : -ENOMEM;
    if (sys_failed(at)) {
        rimf_heap_release(&image->heap, section);
        rimf_fail(image, ENOMEM, "%s: there is no room near the program", ctx->pass);
        return NULL;
    }
    *section = (struct new_section){image->new_sections, ctx, (uintptr_t)at, size,
                                    kind == MVLD_SECTION_CODE, 0};
    image->new_sections = section;
    return (void *)at;
}

int rimf_new_code_holds(const struct mvld_image *image, uintptr_t address)
{
    const struct new_section *section = image->new_sections;

    while (section && !(section->code && section->sealed && address - section->at < section->size))
        section = section->next;
    return section != NULL;
}

int rimf_new_sections_seal(struct mvld_image *image)
{
    for (struct new_section *section = image->new_sections; section; section = section->next) {
        if (section->sealed || !section->code)
            continue;
        if (sys_mprotect(image->sys, section->at, section->size, PROT_READ | PROT_EXEC))
            return rimf_fail(image, EACCES, "%s: new code may not be executed here", section->owner->pass);
        section->sealed = 1;
    }
    return 0;
}
