/* SPDX-License-Identifier: MIT
 *
 * rimf/code/bound.c: collects the symbols that the process's objects refer to.
 *
 * A name is bound if the dynamic symbol table of any object lists it without a definition, or a relocation of
 * any object names it; versions do not matter.  The host loader also looks some names up without a
 * relocation, and keeps the addresses in its own data; and a pass may have bound a symbol of one object to a
 * function of another.  So addresses are collected, too.  Names are stored as hashes, among the addresses: a
 * collision makes a function stay.
 */
#include "rimf/code/code.h"

#include "rimf/base/base.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

static int note(struct mvld_image *image, uintptr_t what)
{
    int error = what ? rimf_address_set_add(&image->bound.set, &image->heap, what) : 0;

    return error == -ENOMEM ? error : 0;
}

static uintptr_t hash_of(const char *name)
{
    return rimf_hash(name, rimf_strlen(name));
}

static int note_relocations(struct mvld_image *image, const struct elf_view *view, const Elf64_Rela *list, size_t n)
{
    Elf64_Sym symbol;
    int error = 0;

    for (size_t i = 0; i < n && !error; i++) {
        size_t index = ELF64_R_SYM(list[i].r_info);
        const char *name = index && !elf_symbol_at(view, index, &symbol) ? elf_string(view, symbol.st_name) : NULL;

        error = name ? note(image, hash_of(name)) : 0;
    }
    return error;
}

static int note_symbols(struct mvld_image *image, const struct rimf_object *object)
{
    const struct elf_view *view = &object->view;
    size_t n = elf_symbol_count(view);
    Elf64_Sym symbol;
    int error = 0;

    for (size_t i = 1; i < n && !error; i++) {
        const char *name = elf_symbol_at(view, i, &symbol) ? NULL : elf_string(view, symbol.st_name);
        uintptr_t address = name && symbol.st_shndx != SHN_UNDEF ? elf_symbol_address(view, &symbol) : 0;

        if (name && symbol.st_shndx == SHN_UNDEF)
            error = note(image, hash_of(name));
        else if (address && !elf_segment_at(view, address))
            error = note(image, address);
    }
    return error;
}

static int note_words(struct mvld_image *image, const struct rimf_object *object)
{
    int error = 0;

    for (size_t i = 0; i < object->view.n_segments; i++) {
        const struct mvld_segment *s = &object->view.segments[i];

        for (uintptr_t at = (s->start + 7) & ~7ul; s->prot & PROT_WRITE && at + 8 <= s->end && !error; at += 8)
            error = note(image, *(const uintptr_t *)at);
    }
    return error;
}

static int note_object(struct mvld_image *image, const struct rimf_object *object)
{
    const struct elf_view *view = &object->view;
    int error = note_symbols(image, object);

    error = error ? error : note_relocations(image, view, view->relocations, view->n_relocations);
    error = error ? error : note_relocations(image, view, view->plt_relocations, view->n_plt_relocations);
    return !error && object->public.flags & MVLD_OBJECT_LOADER ? note_words(image, object) : error;
}

int code_bound_read(struct mvld_image *image)
{
    const struct rimf_table *table;
    int error = 0;

    if (image->bound.set.n && image->bound.update == image->updates)
        return 0;
    rimf_address_set_clear(&image->bound.set, &image->heap);
    image->bound.update = image->updates;
    table = rimf_table_enter(image);
    for (size_t i = 0; i < table->n_objects && !error; i++)
        error = note_object(image, table->objects[i]);
    rimf_table_leave(image);
    if (error)
        rimf_address_set_clear(&image->bound.set, &image->heap);
    return error;
}

int code_is_bound(const struct mvld_image *image, uintptr_t address, const char *name)
{
    return rimf_address_set_find(&image->bound.set, address) ||
           (name && rimf_address_set_find(&image->bound.set, hash_of(name)));
}
