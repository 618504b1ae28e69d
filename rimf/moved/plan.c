/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/plan.c: which code shall have a copy, and where that goes (moved/moved.h has the picture).
 */
#include "rimf/moved/moved.h"

#include "rimf/base/base.h"
#include "rimf/image/private.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

#define LIST_AT_FIRST 16u

/* From the first movable unit to the end of the last one, as linked; 0: there is none. */
static size_t movable_span(const struct analysis *s, uint32_t *start)
{
    size_t last = s->n_units;

    while (last && s->units[last - 1].reason != ANALYSIS_PROVEN)
        last--;
    if (!last)
        return 0;
    *start = analysis_first_movable(s);
    return s->units[last - 1].start + s->units[last - 1].size - *start;
}

const char *copies_stay(const struct rimf_object *object, const struct analysis *s)
{
    if (object->public.flags & (MVLD_OBJECT_VDSO | MVLD_OBJECT_LOADER))
        return "it is the host loader, or of the kernel";
    if (object->public.flags & MVLD_OBJECT_UNPLACED)
        return "it lies elsewhere each time, and is not for a frozen image";
    if (s->header->flags & ANALYSIS_FIXED)
        return "it is linked at a fixed address";
    if (s->header->flags & ANALYSIS_TEXTREL || object->view.text_relocations)
        return "relocations change its code";
    if (s->header->flags & ANALYSIS_RESTARTS)
        return "it has restartable sequences";
    if (s->header->flags & ANALYSIS_PROFILED)
        return "it reports addresses of its code to a profiler or sanitizer";
    if (s->header->flags & ANALYSIS_LOOKED_UP)
        return "tables hold return addresses of its code";
    return NULL;
}

static struct rimf_copy *next_copy(struct mvld_image *image)
{
    struct rimf_copies *copies = image->copies;

    if (copies->n_planned == copies->room) {
        size_t room = copies->room ? 2 * copies->room : LIST_AT_FIRST;
        struct rimf_copy *list = rimf_heap_alloc(&image->heap, room * sizeof *list);

        if (!list)
            return NULL;
        /* The old list is not released: a signal handler may stand in it.  All of them
         * together are smaller than the new one. */
        if (copies->n_planned)
            memcpy(list, copies->list, copies->n_planned * sizeof *list);
        __atomic_store_n(&copies->list, list, __ATOMIC_RELEASE);
        copies->room = room;
    }
    return &copies->list[copies->n_planned];
}

/* 1 when four bytes hold every distance between the copy and what the object has at home. */
static int reaches(const struct rimf_copy *copy)
{
    const struct mvld_object *public = &copy->object->public;

    return copy->at < public->start ? public->end - copy->at <= INT32_MAX
                                    : copy->at + copy->size - public->start <= INT32_MAX;
}

/* Behind the first movable code: the jump tables. */
static size_t tables_size(const struct analysis *s)
{
    size_t size = 0;

    for (size_t i = 0; i < s->n_jump_tables; i++)
        size += s->jump_tables[i].count * sizeof(int32_t);
    return size;
}

/* The code of `object` from `start` on, as linked, at a place equal modulo `align`; `tables`: bytes
 * behind it. */
static int plan(struct mvld_image *image, struct rimf_object *object, uint32_t start, size_t code,
                size_t tables, uintptr_t align, uintptr_t from, uintptr_t *end, const char **why)
{
    struct rimf_copies *copies = image->copies;
    uintptr_t home = object->view.bias + start, last;
    struct rimf_copy *copy = next_copy(image);

    *why = copy ? NULL : "memory is short";
    if (!copy)
        return -ENOMEM;
    last = copies->n_planned > copies->n ? copy[-1].at + copy[-1].size : copies->code_end;
    from = from > last ? from : last;
    from += (home - from) % align;
    *copy = (struct rimf_copy){.object = object, .home = home, .at = from, .code = code,
                               .size = code + 1};
    if (tables)
        copy->size = copies_tables(copy) - copy->at + tables;
    if (from < copies->region.code || from - copies->region.code > copies->region.code_size ||
        copy->size > copies->region.code_size - (from - copies->region.code)) {
        *why = "the region is full";
        return -ENOSPC;
    }
    if (!reaches(copy)) {
        *why = "it is farther than 2 GiB from the region";
        return -ERANGE;
    }
    if (copies_note(image, object, copies->n_planned)) {
        *why = "memory is short";
        return -ENOMEM;
    }
    copies->n_planned++;
    *end = from + copy->size;
    return 0;
}

/* What is asked of any object first: its analysis, or NULL with the sentence. */
static const struct analysis *movable(struct mvld_image *image, struct rimf_object *object,
                                     int in_pieces, const char **why)
{
    const struct analysis *s = NULL;

    *why = "there is no region for copies";
    if (image->copies)
        s = in_pieces ? rimf_analysis_branches(image, object, why)
                      : rimf_analysis_whole(image, object, why);
    if (s)
        *why = copies_stay(object, s);
    return *why ? NULL : s;
}

int rimf_copy_add(struct mvld_image *image, const struct mvld_object *public, uintptr_t from,
                  uintptr_t *end, const char **why)
{
    struct rimf_object *object = (struct rimf_object *)rimf_object_of(public);
    const struct analysis *s = movable(image, object, 0, why);
    uint32_t start = 0;
    size_t span;

    if (!s)
        return -ENODATA;
    span = movable_span(s, &start);
    if (!span || object->copy) {
        *why = span ? "it has a copy" : "no function of it can be moved";
        return -ENOTSUP;
    }
    if (!elf_holds(&object->view, object->view.bias + start, span, PROT_READ | PROT_EXEC)) {
        *why = "its functions lie in several segments";
        return -ENOTSUP;
    }
    /* Rounded down it may lie before the segment (lld's begin anywhere), in the same page. */
    span += start % RIMF_COPY_LINE;
    start -= start % RIMF_COPY_LINE;
    return plan(image, object, start, span, tables_size(s), RIMF_COPY_LINE, from, end, why);
}

int rimf_copy_add_fragment(struct mvld_image *image, const struct mvld_object *public,
                        const struct mvld_fragment *fragment, uintptr_t from, uintptr_t *end,
                        const char **why)
{
    struct rimf_object *object = (struct rimf_object *)rimf_object_of(public);
    const struct analysis *s = movable(image, object, 1, why);
    uint32_t start = (uint32_t)(fragment->home - object->view.bias), first = 0;

    if (!s)
        return -ENODATA;
    if (object->copy && object->copy <= image->copies->n) {
        *why = "it has a copy";
        return -ENOTSUP;
    }
    if (start != fragment->home - object->view.bias || !copies_is_fragment(s, start, fragment->size)) {
        *why = "it cannot be cut there";
        return -EINVAL;
    }
    if (!elf_holds(&object->view, fragment->home, fragment->size, PROT_READ | PROT_EXEC)) {
        *why = "its functions lie in several segments";
        return -ENOTSUP;
    }
    movable_span(s, &first);
    return plan(image, object, start, fragment->size, start == first ? tables_size(s) : 0,
                from ? RIMF_COPY_ALIGN : RIMF_COPY_LINE, from, end, why);
}
