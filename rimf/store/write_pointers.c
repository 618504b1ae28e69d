/* SPDX-License-Identifier: MIT
 *
 * rimf/store/write_pointers.c: writes the relocated words that point to moved code into a manifest;
 * store/manifest.h (ADDRESSES) has the reasons.
 *
 * The words were recorded when they were written (rimf_watch_pointer).  Nothing else points into moved code
 * yet: no code of the program has run, and the library of the region has no relocations.
 */
#include "rimf/store/writer.h"

#include "rimf/base/base.h"
#include "rimf/moved/moved.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

/* ---- what resolvers chose ------------------------------------------------------------- */

static int is_chosen(const struct mvld_image *image, const struct rimf_object *object,
                     const Elf64_Rela *entry)
{
    struct mvld_symbol definition;

    switch (ELF64_R_TYPE(entry->r_info)) {
    case R_X86_64_IRELATIVE: return 1;
    case R_X86_64_64:
    case R_X86_64_GLOB_DAT:
    case R_X86_64_JUMP_SLOT:
        return !rimf_symbol_bind(image, object, ELF64_R_SYM(entry->r_info), &definition) &&
               definition.type == STT_GNU_IFUNC;
    default: return 0;
    }
}

/* A word whose target is in no file's code never points to moved code, whatever a resolver chooses. */
static int note_choice(struct mvld_image *image, const struct rimf_object *object, uintptr_t word)
{
    const struct mvld_object *to;
    uintptr_t value;

    if (!elf_holds(&object->view, word, sizeof value, PROT_READ))
        return 0;
    to = rimf_object_find(image, moved_word(image, word));
    if (!to || to->flags & MVLD_OBJECT_VDSO)
        return 0;
    if (word % sizeof value)
        return rimf_fail(image, ENOTSUP, "%s: a word that a resolver decides is not aligned",
                         object->public.name);
    return rimf_slot_value(image, object, word, 1, &value) == RIMF_SLOT_LAZY
               ? 0
               : rimf_watch_word(image, word);
}

static int note_table(struct mvld_image *image, const struct rimf_object *object,
                      const Elf64_Rela *entries, size_t n)
{
    int error = 0;

    for (size_t i = 0; i < n && !error; i++)
        if (is_chosen(image, object, &entries[i]))
            error = note_choice(image, object, object->view.bias + entries[i].r_offset);
    return error;
}

int write_choices(struct mvld_image *image, const struct rimf_table *table)
{
    int error = 0;

    for (size_t i = 0; image->watch->n_pointers && i < table->n_objects && !error; i++) {
        const struct rimf_object *object = table->objects[i];
        const struct elf_view *view = &object->view;

        if (object->public.flags &
            (MVLD_OBJECT_OPAQUE | MVLD_OBJECT_VDSO | MVLD_OBJECT_LOADER))
            continue;
        error = note_table(image, object, view->relocations + view->n_relative,
                           view->n_relocations - view->n_relative);
        if (!error)
            error = note_table(image, object, view->plt_relocations, view->n_plt_relocations);
    }
    return error;
}

/* ---- pointers ---------------------------------------------------------------------------- */

static int fill_pointer(struct writer *w, uint32_t index, uintptr_t word)
{
    const struct moved_code *moved = w->image->moved;
    const struct rimf_object *object = w->table->objects[index];
    uintptr_t original = moved_word(w->image, word);
    const struct mvld_object *to = rimf_object_find(w->image, original);
    const struct moved_fragment *fragment = moved_fragment_made(moved, to, original, 1);
    struct manifest_pointer *out = &w->pointers[w->header->n_pointers];
    uintptr_t value;

    memcpy(&value, (const void *)word, sizeof value);
    if (!fragment || value == original || canonical_address(fragment, original) != value)
        return rimf_fail(w->image, ENOTSUP, "%s: a word at %p does not lead to the moved code that it was "
                         "led to", object->public.name, (void *)word);
    *out = (struct manifest_pointer){
        .object = index,
        .linked = (uint32_t)(word - object->public.bias),
        .fragment = (uint32_t)(fragment - moved->list),
        .offset = (uint32_t)(original - fragment->original),
    };
    if (object->public.bias + out->linked != word)
        return rimf_fail(w->image, ENOTSUP, "%s: it is too large", object->public.name);
    w->header->n_pointers++;
    return 0;
}

/* Its index, or the number of all. */
static size_t number_of(const struct writer *w, uintptr_t word)
{
    const struct rimf_watch *watch = w->image->watch;
    size_t first = rimf_words_first(watch->pointers, watch->n_pointers, word);

    return first < watch->n_pointers && watch->pointers[first] == word ? first : watch->n_pointers;
}

int writer_is_led(const struct writer *w, uintptr_t word)
{
    return number_of(w, word) < w->image->watch->n_pointers;
}

void writer_set_way(struct writer *w, uintptr_t word, enum writer_way way)
{
    size_t number = number_of(w, word);

    if (number < w->image->watch->n_pointers)
        w->ways[number] = (uint8_t)way;
}

static int note_addend(void *cookie, uintptr_t word)
{
    writer_set_way(cookie, word, WRITER_ADDEND);
    return 0;
}

/* By object, like words (store/write_start.c). */
static int fill_way(struct writer *w, enum writer_way way)
{
    const struct rimf_watch *watch = w->image->watch;
    int error = 0;

    for (uint32_t i = 0; i < w->table->n_objects; i++) {
        const struct mvld_object *object = &w->table->objects[i]->public;
        size_t k = rimf_words_first(watch->pointers, watch->n_pointers, object->start);

        for (; k < watch->n_pointers && watch->pointers[k] < object->end && !error; k++)
            if (w->ways[k] == way)
                error = fill_pointer(w, i, watch->pointers[k]);
    }
    return error;
}

int write_pointers(struct writer *w)
{
    int error;

    for (size_t i = 0; i < w->table->n_objects; i++)
        if (!(w->table->objects[i]->public.flags & MVLD_OBJECT_UNPLACED))
            elf_relr_each(&w->table->objects[i]->view, note_addend, w);
    error = fill_way(w, WRITER_ADDEND);
    w->header->n_addends = w->header->n_pointers;
    if (!error)
        error = fill_way(w, WRITER_TABLE);
    w->header->n_tabled = w->header->n_pointers - w->header->n_addends;
    return error ? error : fill_way(w, WRITER_WORD);
}
