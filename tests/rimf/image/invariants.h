/* SPDX-License-Identifier: MIT
 *
 * The invariants of the image, one function each.  They read only the image and the objects' program headers.
 */
#ifndef INVARIANTS_H
#define INVARIANTS_H

#include "rimf/base/base.h"
#include "rimf/image/private.h"

#include <errno.h>
#include <sys/mman.h>

#define BROKEN(image, ...) rimf_fail((image), EUCLEAN, "image: " __VA_ARGS__)

static inline int check_opaque(struct mvld_image *image, const struct rimf_object *object)
{
    const struct mvld_object *public = &object->public;

    if (!public->why)
        return BROKEN(image, "%s is opaque without a reason", public->name);
    if (public->n_segments || public->dynamic || object->view.n_segments || object->n_sections)
        return BROKEN(image, "%s is opaque and has segments", public->name);
    return 0;
}

static inline int check_segments(struct mvld_image *image, const struct rimf_object *object)
{
    const struct mvld_object *public = &object->public;
    uintptr_t last = 0;

    if (!public->n_segments || public->segments != object->view.segments ||
        public->n_segments != object->view.n_segments)
        return BROKEN(image, "%s has no segments, or not its own", public->name);
    for (size_t i = 0; i < public->n_segments; i++) {
        const struct mvld_segment *segment = &public->segments[i];

        if (segment->start >= segment->end || segment->start < last ||
            segment->prot & ~(uint32_t)(PROT_READ | PROT_WRITE | PROT_EXEC))
            return BROKEN(image, "segment %zu of %s is empty, overlaps or has an odd protection",
                          i, public->name);
        last = segment->end;
    }
    if (public->start != public->segments[0].start || public->end != last)
        return BROKEN(image, "%s does not span its segments", public->name);
    return 0;
}

/* The program headers in memory must be unchanged: this finds an object that was replaced or unmapped
 * without notice. */
static inline int check_headers(struct mvld_image *image, const struct rimf_object *object)
{
    const struct elf_view *view = &object->view;
    size_t load = 0;

    for (size_t i = 0; i < view->phnum; i++) {
        const Elf64_Phdr *phdr = &view->phdr[i];

        if (phdr->p_type != PT_LOAD || !phdr->p_memsz)
            continue;
        if (load >= view->n_segments ||
            view->segments[load].start != view->bias + phdr->p_vaddr ||
            view->segments[load].end != view->bias + phdr->p_vaddr + phdr->p_memsz)
            return BROKEN(image, "the program headers of %s have changed", object->public.name);
        load++;
    }
    if (load != view->n_segments)
        return BROKEN(image, "the program headers of %s have changed", object->public.name);
    if (view->dynamic && !elf_holds(view, (uintptr_t)view->dynamic,
                                    view->n_dynamic * sizeof(Elf64_Dyn), PROT_READ))
        return BROKEN(image, "the dynamic section of %s lies outside it", object->public.name);
    return 0;
}

static inline int check_sections(struct mvld_image *image, const struct rimf_object *object)
{
    const struct mvld_object *public = &object->public;
    uintptr_t last = 0;

    for (size_t i = 0; i < object->n_sections; i++) {
        const struct mvld_section *section = &object->sections[i];

        if (section->kind < MVLD_SECTION_CODE || section->kind > MVLD_SECTION_RELRO)
            return BROKEN(image, "section %zu of %s is of no kind", i, public->name);
        if (section->address < last || !section->size ||
            !elf_holds(&object->view, section->address, section->size, section->prot))
            return BROKEN(image, "section %zu of %s lies outside its segments", i, public->name);
        if (section->linked + public->bias != section->address)
            return BROKEN(image, "section %zu of %s is not where its bias puts it", i,
                          public->name);
        last = section->address + section->size;
    }
    return 0;
}

static inline int check_object(struct mvld_image *image, const struct rimf_object *object)
{
    const struct mvld_object *public = &object->public;
    const uint32_t known =
        MVLD_OBJECT_MAIN | MVLD_OBJECT_VDSO | MVLD_OBJECT_LOADER | MVLD_OBJECT_OPAQUE |
        MVLD_OBJECT_UNPLACED;
    int result;

    if (!public->name || !*public->name)
        return BROKEN(image, "an object at %lx has no name", (unsigned long)public->bias);
    if (public->flags & ~known || object->gone)
        return BROKEN(image, "%s has wrong flags, or is gone", public->name);
    if (object->view.bias != public->bias)
        return BROKEN(image, "%s has two load biases", public->name);
    if (object->domain.now > image->n_domains)
        return BROKEN(image, "%s is in domain %zu of %zu", public->name, object->domain.now,
                      image->n_domains + 1);
    if (public->flags & MVLD_OBJECT_OPAQUE)
        return check_opaque(image, object);
    result = check_segments(image, object);
    if (!result)
        result = check_headers(image, object);
    if (!result)
        result = check_sections(image, object);
    return result;
}

/* At most one executable. */
static inline int check_mains(struct mvld_image *image, const struct rimf_table *table)
{
    size_t mains = 0;

    for (size_t i = 0; i < table->n_objects; i++)
        mains += table->objects[i]->public.flags & MVLD_OBJECT_MAIN;
    if (mains > 1)
        return BROKEN(image, "%zu objects are the executable", mains);
    return 0;
}

static inline int is_indexed(const struct rimf_table *table, const struct rimf_object *object,
                             const struct mvld_segment *segment)
{
    size_t n = 0;

    for (size_t i = 0; i < table->n_places; i++)
        n += table->places[i].object == object && segment->start >= table->places[i].start &&
             segment->end <= table->places[i].end;
    return n == 1;
}

/* The index by address must be ordered and disjoint, with each entry from the start of one segment of an object to the
 * end of one, and each segment of a listed object in one entry. */
static inline int check_index(struct mvld_image *image, const struct rimf_table *table)
{
    for (size_t i = 0; i < table->n_places; i++) {
        const struct rimf_place *place = &table->places[i];
        int begins = 0, ends = 0;

        if (i && place->start < place[-1].end)
            return BROKEN(image, "%s and %s overlap at %lx", place[-1].object->public.name,
                          place->object->public.name, (unsigned long)place->start);
        for (size_t s = 0; s < place->object->view.n_segments; s++) {
            begins |= place->object->view.segments[s].start == place->start;
            ends |= place->object->view.segments[s].end == place->end;
        }
        if (!begins || !ends || place->object->gone)
            return BROKEN(image, "the index has a segment at %lx that no object has",
                          (unsigned long)place->start);
    }
    for (size_t i = 0; i < table->n_objects; i++)
        for (size_t s = 0; s < table->objects[i]->view.n_segments; s++)
            if (!is_indexed(table, table->objects[i], &table->objects[i]->view.segments[s]))
                return BROKEN(image, "the index lacks a segment of %s", table->objects[i]->public.name);
    return 0;
}

static inline int rimf_image_check(struct mvld_image *image)
{
    const struct rimf_table *table = rimf_table_enter(image);
    int result = 0;

    for (size_t i = 0; i < table->n_objects && !result; i++)
        result = check_object(image, table->objects[i]);
    if (!result)
        result = check_mains(image, table);
    if (!result)
        result = check_index(image, table);
    rimf_table_leave(image);
    return result;
}

#endif
