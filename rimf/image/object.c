/* SPDX-License-Identifier: MIT
 *
 * rimf/image/object.c: describes an object from its program headers.
 */
#include "rimf/image/private.h"

#include "rimf/base/base.h"

#include <sys/mman.h> /* numbers only */

/* Why passes must not change the object, or NULL. */
static const char *untouchable(const struct rimf_object *object)
{
    if (object->public.flags & MVLD_OBJECT_VDSO)
        return "it belongs to the kernel";
    if (object->public.flags & MVLD_OBJECT_LOADER)
        return "it is the host loader";
    if (object->view.text_relocations)
        return "it has text relocations";
    for (size_t i = 0; i < object->view.n_segments; i++)
        if ((object->view.segments[i].prot & (PROT_WRITE | PROT_EXEC)) == (PROT_WRITE | PROT_EXEC))
            return "it has a segment that is writable and executable";
    return NULL;
}

static void describe(struct rimf_object *object)
{
    const struct elf_view *view = &object->view;
    struct mvld_object *public = &object->public;
    size_t id_size;
    const uint8_t *id = elf_build_id(view, &id_size);

    public->start = view->segments[0].start;
    public->end = view->segments[view->n_segments - 1].end;
    public->segments = view->segments;
    public->n_segments = view->n_segments;
    public->dynamic = view->dynamic;
    public->phdr = view->phdr;
    public->phnum = view->phnum;
    if (id && id_size <= RIMF_BUILD_ID_MAX) {
        memcpy(object->build_id, id, id_size);
        public->build_id = object->build_id;
        public->build_id_size = id_size;
    }
    public->why = untouchable(object);
}

static void make_opaque(struct rimf_object *object, const char *why)
{
    memset(&object->view, 0, sizeof object->view);
    object->view.bias = object->public.bias;
    object->public.flags |= MVLD_OBJECT_OPAQUE;
    object->public.why = why;
}

struct rimf_object *rimf_object_create(struct mvld_image *image, const struct rimf_source *source)
{
    struct elf_view view;
    const char *why = NULL, *name = source->name && *source->name ? source->name : "(no name)";
    long probed = elf_view_probe(&view, image->sys, source, &why);
    size_t n_segments = probed > 0 ? (size_t)probed : 0;
    size_t n_sections = n_segments + 2, name_size = rimf_strlen(name) + 1;
    struct mvld_segment *segments;
    struct rimf_object *object =
        rimf_heap_take(&image->heap, sizeof *object + n_segments * sizeof *segments +
                                          n_sections * sizeof(struct mvld_section) + name_size);

    if (!object)
        return NULL;
    segments = (struct mvld_segment *)(object + 1);
    object->sections = (struct mvld_section *)(segments + n_segments);
    object->view = view;
    object->dynamic = source->dynamic;
    object->public = (struct mvld_object){
        .flags = source->flags & ~MVLD_OBJECT_OPAQUE,
        .name = memcpy(object->sections + n_sections, name, name_size),
        .bias = source->bias,
        .link_map = source->link_map,
    };
    if (source->identity) {
        object->file.id = *source->identity;
        object->file.known = 1;
    }
    if (probed < 0 || elf_view_open(&object->view, source, segments, n_segments, &why)) {
        make_opaque(object, why);
        return object;
    }
    describe(object);
    rimf_sections_fill(object);
    return object;
}
