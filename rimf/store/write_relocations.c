/* SPDX-License-Identifier: MIT
 *
 * rimf/store/write_relocations.c: tables of relocations in which entries that asked for a
 * symbol ask for none; what for, and which of them, is told in store/manifest.h.
 *
 * What the host loader found is in memory now, and no code of the program has run.  An
 * entry is changed only when our own look-up finds the same.  What a resolver chose must be of
 * the object that the look-up leads to, and is compared at each start (write_choices).
 */
#include "rimf/store/writer.h"

#include "rimf/base/base.h"
#include "rimf/moved/moved.h"

#include <errno.h>    /* numbers only */
#include <fcntl.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

#define PAGES_MAX (64ul << 20)

/* The entries of one object that are changed, and the pages that hold its tables. */
struct finished {
    uint32_t n;   /* that asked for a symbol */
    uint32_t led; /* whose word leads to moved code */
    uintptr_t start, end;
    uint64_t offset; /* of the pages, in the file */
};

/* What an entry becomes. */
struct replacement {
    Elf64_Rela entry;
    const struct mvld_object *from; /* its addend is linked, of this one; NULL: of its own object */
};

static int binds_at_start(const struct elf_view *view)
{
    for (size_t i = 0; i < view->n_dynamic; i++) {
        const Elf64_Dyn *d = &view->dynamic[i];

        if (d->d_tag == DT_BIND_NOW || (d->d_tag == DT_FLAGS && d->d_un.d_val & DF_BIND_NOW) ||
            (d->d_tag == DT_FLAGS_1 && d->d_un.d_val & DF_1_NOW))
            return 1;
    }
    return 0;
}

/* 1: they are at the same distance from each other in every process. */
static int are_together(const struct mvld_object *a, const struct mvld_object *b)
{
    return a == b || !((a->flags | b->flags) & (MVLD_OBJECT_UNPLACED | MVLD_OBJECT_VDSO));
}

/* An absolute one (SHN_ABS) lies in no object: it is at a constant distance from none. */
static int is_plain(const struct mvld_symbol *definition)
{
    const struct mvld_object *in = definition->object;

    return (definition->type == STT_NOTYPE || definition->type == STT_OBJECT ||
            definition->type == STT_FUNC) &&
           definition->binding != STB_GNU_UNIQUE && definition->address - in->start <= in->end - in->start &&
           !(in->flags & MVLD_OBJECT_VDSO) && rimf_object_of(in)->global;
}

static int is_bound(const struct writer *w, const struct rimf_object *object,
                    const Elf64_Rela *entry, struct mvld_symbol *definition)
{
    uint32_t type = ELF64_R_TYPE(entry->r_info);
    size_t index = ELF64_R_SYM(entry->r_info);
    Elf64_Sym symbol;

    return (type == R_X86_64_GLOB_DAT || type == R_X86_64_JUMP_SLOT || type == R_X86_64_64) &&
           !elf_symbol_at(&object->view, index, &symbol) &&
           ELF64_ST_VISIBILITY(symbol.st_other) == STV_DEFAULT &&
           !rimf_symbol_bind(w->image, object, index, definition);
}

/* Where a resolver is that chose what the word holds, or 0. */
static uintptr_t resolver_of(const struct writer *w, const struct rimf_object *object,
                             const Elf64_Rela *entry)
{
    uintptr_t word = object->view.bias + entry->r_offset, resolver;
    const struct mvld_object *chosen;
    struct mvld_symbol definition;

    if (ELF64_R_TYPE(entry->r_info) == R_X86_64_IRELATIVE) {
        resolver = object->view.bias + (uintptr_t)entry->r_addend;
    } else {
        if (!is_bound(w, object, entry, &definition) || definition.type != STT_GNU_IFUNC ||
            definition.binding == STB_GNU_UNIQUE ||
            (ELF64_R_TYPE(entry->r_info) == R_X86_64_64 && entry->r_addend) ||
            !rimf_object_of(definition.object)->global)
            return 0;
        resolver = definition.address;
    }
    chosen = rimf_object_find(w->image, moved_word(w->image, word));
    return chosen && are_together(&object->public, chosen) &&
                   chosen == rimf_object_find(w->image, resolver)
               ? resolver : 0;
}

/* Makes `*replacement` of the entry, which does the same in every process and asks for no symbol; where
 * words are led to moved code, it leads this one there.  1: it asked for one; 2: it did not; 0: it
 * stays. */
static int replace(const struct writer *w, const struct rimf_object *object,
                   const Elf64_Rela *entry, struct replacement *replacement)
{
    uintptr_t bias = object->view.bias, word = bias + entry->r_offset, value, holds, resolver;
    Elf64_Rela *to = &replacement->entry;
    struct mvld_symbol definition;
    int asked = ELF64_R_SYM(entry->r_info) != 0;

    *replacement = (struct replacement){.entry = *entry};
    if (!elf_holds(&object->view, word, sizeof word, PROT_READ) ||
        (object->public.flags & MVLD_OBJECT_UNPLACED && writer_is_led(w, word)))
        return 0;
    memcpy(&holds, (const void *)word, sizeof holds);
    if (ELF64_R_TYPE(entry->r_info) == R_X86_64_RELATIVE) {
        to->r_addend = (int64_t)(holds - bias);
        return writer_is_led(w, word) &&
                       moved_word(w->image, word) == bias + (uintptr_t)entry->r_addend
                   ? 2 : 0;
    }
    if (word % sizeof word)
        return 0;
    resolver = w->image->watch->n_pointers ? resolver_of(w, object, entry) : 0;
    if (resolver) {
        to->r_info = ELF64_R_INFO(0, R_X86_64_IRELATIVE);
        to->r_addend = (int64_t)(rimf_canonical_address(w->image, resolver) - bias);
        return asked ? 1 : rimf_canonical_address(w->image, resolver) != resolver ? 2 : 0;
    }
    if (!is_bound(w, object, entry, &definition) || !is_plain(&definition))
        return 0;
    if (!are_together(&object->public, definition.object))
        replacement->from = definition.object;
    value = definition.address +
            (ELF64_R_TYPE(entry->r_info) == R_X86_64_64 ? (uintptr_t)entry->r_addend : 0);
    to->r_info = ELF64_R_INFO(0, R_X86_64_RELATIVE);
    to->r_addend = (int64_t)((writer_is_led(w, word) ? holds : value) -
                             (replacement->from ? replacement->from->bias : bias));
    return moved_word(w->image, word) == value;
}

static void settle(const struct writer *w, const struct rimf_object *object,
                   const Elf64_Rela *entries, size_t n, struct finished *out)
{
    struct replacement replacement;

    for (size_t i = 0; i < n; i++) {
        int how = replace(w, object, &entries[i], &replacement);

        out->n += how == 1;
        out->led += how && writer_is_led(w, object->view.bias + entries[i].r_offset);
    }
}

static void cover(const Elf64_Rela *entries, size_t n, struct finished *out)
{
    uintptr_t start = rimf_page_down((uintptr_t)entries), end = rimf_page_up((uintptr_t)(entries + n));

    if (!n)
        return;
    out->start = out->end && out->start < start ? out->start : start;
    out->end = out->end > end ? out->end : end;
}

/* The addend of the entry at that offset in the file counts from another object.  1: it can be said. */
static int add_shift(struct writer *w, uint64_t entry, const struct mvld_object *from)
{
    uint64_t at = entry + offsetof(Elf64_Rela, r_addend) - w->relocations->offset;

    if (at > UINT32_MAX)
        return 0;
    w->shifts[w->header->n_shifts++] =
        (struct manifest_shift){.at = (uint32_t)at, .to_object = writer_number(w, from)};
    return 1;
}

/* Those of the table that lie in `pages`, a copy of what lies at out->start. */
static void rewrite(struct writer *w, const struct rimf_object *object,
                    const Elf64_Rela *entries, size_t n, const struct finished *out,
                    uint8_t *pages)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t at = (uintptr_t)&entries[i] - out->start;
        struct replacement replacement;

        if (!replace(w, object, &entries[i], &replacement) ||
            (replacement.from && !add_shift(w, out->offset + at, replacement.from)))
            continue;
        memcpy(pages + at, &replacement.entry, sizeof replacement.entry);
        if (ELF64_R_TYPE(replacement.entry.r_info) == R_X86_64_RELATIVE)
            writer_set_way(w, object->view.bias + entries[i].r_offset, WRITER_TABLE);
    }
}

/* What the linkers that are known do.  Some put code into it, too, behind the tables. */
static int in_first_segment(const struct rimf_object *object, const struct finished *s)
{
    const struct mvld_segment *first = object->public.segments;

    return !(first->prot & PROT_WRITE) && s->start >= rimf_page_down(first->start) &&
           s->end <= rimf_page_up(first->end);
}

static int write_pages(struct writer *w, uint32_t index, const struct finished *s, int fd)
{
    const struct rimf_object *object = w->table->objects[index];
    const struct elf_view *view = &object->view;
    struct manifest_relocations *out = &w->relocations[w->header->n_relocations++];
    size_t size = s->end - s->start;
    uint8_t *pages = rimf_heap_alloc(&w->image->heap, size);
    int error;

    if (!pages)
        return -ENOMEM;
    *out = (struct manifest_relocations){
        .object = index,
        .n = s->n,
        .linked = s->start - view->bias,
        .size = size,
        .offset = s->offset,
    };
    memcpy(pages, (const void *)s->start, size);
    rewrite(w, object, view->relocations, view->n_relocations, s, pages);
    if (binds_at_start(view))
        rewrite(w, object, view->plt_relocations, view->n_plt_relocations, s, pages);
    out->hash = rimf_hash(pages, size);
    error = write_bytes(w->image->sys, fd, pages, size, s->offset);
    rimf_heap_release(&w->image->heap, pages);
    return error;
}

/* From `offset` on, where the file ends. */
static int write_file(struct writer *w, int fd, uint64_t offset)
{
    int error = 0;

    for (uint32_t i = 0; i < w->table->n_objects && !error; i++) {
        const struct rimf_object *object = w->table->objects[i];
        const struct elf_view *view = &object->view;
        struct finished s = {.offset = offset};

        if (object->public.why || !view->n_segments || /* the host loader relocated itself */
            object->public.flags & (MVLD_OBJECT_VDSO | MVLD_OBJECT_LOADER))
            continue;
        settle(w, object, view->relocations, view->n_relocations, &s);
        if (binds_at_start(view))
            settle(w, object, view->plt_relocations, view->n_plt_relocations, &s);
        cover(view->relocations, view->n_relocations, &s);
        cover(view->plt_relocations, view->n_plt_relocations, &s);
        if ((s.n || s.led) && s.end - s.start <= PAGES_MAX && in_first_segment(object, &s)) {
            error = write_pages(w, i, &s, fd);
            offset += s.end - s.start;
        }
    }
    if (!error && w->header->n_relocations)
        error = write_finish(w->image->sys, fd, &w->header->relocations);
    if (!error && w->header->n_relocations && w->header->n_regions)
        w->region->file = w->header->relocations;
    return error;
}

int write_relocations(struct writer *w)
{
    const struct rimf_sys *sys = w->image->sys;
    int error, moved = w->header->n_regions != 0;
    long fd;

    if (rimf_has_filter(w->image))
        return 0;
    fd = SYS6(sys, SYS_openat, w->folder, moved ? MOVED_FILE : RELOCATIONS_FILE,
              O_WRONLY | O_CLOEXEC | (moved ? 0 : O_CREAT | O_EXCL), 0644, 0, 0);
    error = sys_failed(fd) ? (int)fd
                           : write_file(w, (int)fd, moved ? rimf_page_up(w->region->file.size) : 0);
    if (!sys_failed(fd))
        sys_close(sys, (int)fd);
    if (!error && !w->header->n_relocations && !moved)
        SYS3(sys, SYS_unlinkat, w->folder, RELOCATIONS_FILE, 0);
    return error ? rimf_fail(w->image, -error, "relocations cannot be written (error %d)", -error)
                 : 0;
}
