/* SPDX-License-Identifier: MIT
 *
 * rimf/store/write_relocations.c: writes relocation tables in which entries with a symbol become entries
 * without; store/manifest.h has the reasons and the rules.
 *
 * The host loader's results are in memory now, and no code of the program has run.  An entry is changed only
 * if our own look-up finds the same.  A resolver's choice must be in the object of the look-up's result, and
 * is compared at each start (write_choices).
 */
#include "rimf/store/writer.h"

#include "rimf/base/base.h"
#include "rimf/moved/moved.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

#define PAGES_MAX (64ul << 20)

/* The new form of an entry. */
struct replacement {
    Elf64_Rela entry;
    const struct mvld_object *from; /* its addend is a linked address of this object; NULL: of its own object */
};

/* Returns 1 if their distance is the same in every process. */
static int are_together(const struct mvld_object *a, const struct mvld_object *b)
{
    return a == b || !((a->flags | b->flags) & (MVLD_OBJECT_UNPLACED | MVLD_OBJECT_VDSO));
}

/* An absolute symbol (SHN_ABS) belongs to no object, so it has no constant distance. */
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

/* The resolver that chose the word's value, or 0. */
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

/* Makes an equivalent `*replacement` of the entry without a symbol; if words point to moved code, with that
 * address.  1: it had a symbol; 2: it had none; 0: it stays. */
static int replace(const struct writer *w, const struct rimf_object *object,
                   const Elf64_Rela *entry, struct replacement *replacement)
{
    uintptr_t bias = object->view.bias, word = bias + entry->r_offset, value, holds, resolver;
    Elf64_Rela *to = &replacement->entry;
    struct mvld_symbol definition;
    int asked = ELF64_R_SYM(entry->r_info) != 0;

    *replacement = (struct replacement){.entry = *entry};
    if (!elf_holds(&object->view, word, sizeof word, PROT_READ) ||
        (object->public.flags & MVLD_OBJECT_UNPLACED && writer_is_moved(w, word)))
        return 0;
    memcpy(&holds, (const void *)word, sizeof holds);
    if (ELF64_R_TYPE(entry->r_info) == R_X86_64_RELATIVE) {
        to->r_addend = (int64_t)(holds - bias);
        return writer_is_moved(w, word) &&
                       moved_word(w->image, word) == bias + (uintptr_t)entry->r_addend
                   ? 2 : 0;
    }
    if (word % sizeof word)
        return 0;
    resolver = w->image->watch->pointers.n ? resolver_of(w, object, entry) : 0;
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
    to->r_addend = (int64_t)((writer_is_moved(w, word) ? holds : value) -
                             (replacement->from ? replacement->from->bias : bias));
    return moved_word(w->image, word) == value;
}

static void cover(const Elf64_Rela *entries, size_t n, uintptr_t *start, uintptr_t *end)
{
    if (!n)
        return;
    *start = (uintptr_t)entries < *start ? rimf_page_down((uintptr_t)entries) : *start;
    *end = (uintptr_t)(entries + n) > *end ? rimf_page_up((uintptr_t)(entries + n)) : *end;
}

/* Records that the addend of the entry at that file offset counts from another object.  1: possible. */
static int add_shift(struct writer *w, uint64_t entry, const struct mvld_object *from)
{
    uint64_t at = entry + offsetof(Elf64_Rela, r_addend) - w->relocations->offset;

    if (at > UINT32_MAX)
        return 0;
    w->shifts[w->header->n_shifts++] =
        (struct manifest_shift){.at = (uint32_t)at, .to_object = writer_number(w, from)};
    return 1;
}

/* Rewrites the entries of one table, in `pages`, which are those of `out`.  Returns the number of those that
 * lost their symbol, or point to moved code. */
static size_t rewrite(struct writer *w, const struct rimf_object *object, const Elf64_Rela *entries, size_t n,
                      struct manifest_relocations *out, uint8_t *pages)
{
    size_t changed = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t at = (uintptr_t)&entries[i] - object->view.bias - out->linked;
        uintptr_t word = object->view.bias + entries[i].r_offset;
        struct replacement replacement;
        int how = replace(w, object, &entries[i], &replacement);

        if (!how || (replacement.from && !add_shift(w, out->offset + at, replacement.from)))
            continue;
        out->n += how == 1;
        changed += how == 1 || writer_is_moved(w, word);
        memcpy(pages + at, &replacement.entry, sizeof replacement.entry);
        if (ELF64_R_TYPE(replacement.entry.r_info) == R_X86_64_RELATIVE)
            writer_set_way(w, word, WRITER_TABLE);
    }
    return changed;
}

/* The layout of the known linkers.  Some put code into the segment, too, after the tables. */
static int in_first_segment(const struct rimf_object *object, uintptr_t start, uintptr_t end)
{
    const struct mvld_segment *first = object->public.segments;

    return !(first->prot & PROT_WRITE) && start >= rimf_page_down(first->start) && end <= rimf_page_up(first->end);
}

/* Appends the tables of one object to the file, if something in them is changed. */
static int write_pages(struct writer *w, uint32_t index, int fd, uint64_t *offset)
{
    const struct rimf_object *object = w->table->objects[index];
    const struct elf_view *view = &object->view;
    struct manifest_relocations *out = &w->relocations[w->header->n_relocations];
    uintptr_t start = UINTPTR_MAX, end = 0;
    size_t changed;
    uint8_t *pages;
    int error = 0;

    cover(view->relocations, view->n_relocations, &start, &end);
    cover(view->plt_relocations, view->n_plt_relocations, &start, &end);
    if (!end || end - start > PAGES_MAX || !in_first_segment(object, start, end))
        return 0;
    pages = rimf_heap_alloc(&w->image->heap, end - start);
    if (!pages)
        return -ENOMEM;
    *out = (struct manifest_relocations){
        .object = index, .linked = start - view->bias, .size = end - start, .offset = *offset};
    memcpy(pages, (const void *)start, out->size);
    changed = rewrite(w, object, view->relocations, view->n_relocations, out, pages);
    if (view->now)
        changed += rewrite(w, object, view->plt_relocations, view->n_plt_relocations, out, pages);
    if (changed) {
        w->header->n_relocations++;
        out->hash = rimf_hash(pages, out->size);
        error = cache_write_part(w->image->sys, fd, pages, out->size, *offset);
        *offset += out->size;
    }
    rimf_heap_release(&w->image->heap, pages);
    return error;
}

int write_relocations(struct writer *w, int fd, uint64_t offset)
{
    int error = 0;

    for (uint32_t i = 0; i < w->table->n_objects && !error; i++) {
        const struct rimf_object *object = w->table->objects[i];

        if (!object->public.why && object->view.n_segments && /* the host loader relocated itself */
            !(object->public.flags & (MVLD_OBJECT_VDSO | MVLD_OBJECT_LOADER)))
            error = write_pages(w, i, fd, &offset);
    }
    return error;
}
