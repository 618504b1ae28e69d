/* SPDX-License-Identifier: MIT
 *
 * rimf/image/sections.c: an object's parts by kind.
 */
#include "rimf/image/private.h"

#include "rimf/base/base.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

static void append(struct rimf_object *object, enum rimf_section_kind kind, uintptr_t start,
                   uintptr_t end, uint32_t prot)
{
    if (start >= end)
        return;
    object->sections[object->n_sections++] = (struct rimf_section){
        .kind = kind,
        .linked = start - object->view.bias,
        .address = start,
        .size = end - start,
        .prot = prot,
    };
}

static uintptr_t clamp(uintptr_t value, uintptr_t low, uintptr_t high)
{
    return value < low ? low : value > high ? high : value;
}

void rimf_sections_fill(struct rimf_object *object)
{
    const struct elf_view *view = &object->view;
    const Elf64_Phdr *relro = elf_phdr_last(view->phdr, view->phnum, PT_GNU_RELRO);
    uintptr_t relro_start = relro ? view->bias + relro->p_vaddr : 0, relro_end = relro_start;

    if (relro && __builtin_add_overflow(relro_start, relro->p_memsz, &relro_end))
        relro_end = relro_start;
    for (size_t i = 0; i < view->n_segments; i++) {
        const struct mvld_segment *segment = &view->segments[i];
        uintptr_t cut_start = clamp(relro_start, segment->start, segment->end);
        uintptr_t cut_end = clamp(relro_end, segment->start, segment->end);

        if (segment->prot & PROT_EXEC) {
            append(object, RIMF_SECTION_CODE, segment->start, segment->end, segment->prot);
        } else if (!(segment->prot & PROT_WRITE)) {
            append(object, RIMF_SECTION_RODATA, segment->start, segment->end, segment->prot);
        } else if (relro_start >= segment->start && relro_start < segment->end) {
            append(object, RIMF_SECTION_DATA, segment->start, cut_start, segment->prot);
            append(object, RIMF_SECTION_RELRO, cut_start, cut_end,
                   segment->prot & ~(uint32_t)PROT_WRITE);
            append(object, RIMF_SECTION_DATA, cut_end, segment->end, segment->prot);
        } else {
            append(object, RIMF_SECTION_DATA, segment->start, segment->end, segment->prot);
        }
    }
}

size_t rimf_section_count(const struct mvld_object *object)
{
    return rimf_object_of(object)->n_sections;
}

const struct rimf_section *rimf_section_at(const struct mvld_object *object, size_t index)
{
    const struct rimf_object *private = rimf_object_of(object);

    return index < private->n_sections ? &private->sections[index] : NULL;
}

const struct rimf_section *rimf_section_find(const struct mvld_image *image, uintptr_t address)
{
    const struct mvld_object *object = rimf_object_find(image, address);
    const struct rimf_section *section = NULL;

    for (size_t i = 0; object && (section = rimf_section_at(object, i)); i++)
        if (address >= section->address && address - section->address < section->size)
            return section;
    return NULL;
}

int rimf_section_set_pages(const struct mvld_object *object, size_t index, enum rimf_pages pages)
{
    struct rimf_section *section = (struct rimf_section *)rimf_section_at(object, index);

    if (!section || (unsigned)pages > RIMF_PAGES_HUGETLB)
        return -EINVAL;
    section->pages = pages;
    return 0;
}
