/* SPDX-License-Identifier: MIT
 *
 * rimf/image/slots_lazy.c: predicts the target of a slot that waits for the first call.
 *
 * The host loader will look its symbol up.  The result is certain only if all of these hold, and then it is
 * what rimf_symbol_bind finds:
 *
 *     the object was there at start     its scope begins with the global one, which only
 *                                       grows at the end
 *     the definition was, too           so nothing that comes later precedes it
 *     it is not STB_GNU_UNIQUE          one that was bound elsewhere before would win
 *     no object is a filter             filters answer for others
 *
 * A symbol with another visibility than default is its object's own.  For an IFUNC, the resolver decides,
 * which we must not call.  Its earlier results are in bound slots: its own object's IRELATIVE ones name the
 * resolver, others the symbol.
 */
#include "rimf/image/private.h"

#include "rimf/base/base.h"
#include "rimf/image/original.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

static const char *const came_later = "bound at the first call: its object came by dlopen";
static const char *const no_definition = "bound at the first call: nothing defines its symbol";
static const char *const later_definition =
    "bound at the first call: objects that came by dlopen define its symbol";
static const char *const unique = "bound at the first call: its symbol is unique in the process";
static const char *const unknown_choice =
    "bound at the first call: an IFUNC, whose choice no other slot shows";
static const char *const filtered = "bound at the first call: an object is a filter";

/* Whether the slot has the resolver's choice: an address in the object of the resolver.  (In other slots an
 * executable's PLT entry may stand for the function.) */
static int shows_choice(const struct mvld_image *image, const struct rimf_object *object,
                        uint64_t offset, const struct mvld_symbol *ifunc, struct resolved *entry)
{
    const struct mvld_object *holder;

    entry->shown = object->view.bias + offset;
    return rimf_slot_value(image, object, entry->shown, 1, &entry->target, &holder) == RIMF_SLOT_BOUND &&
           holder == ifunc->object;
}

/* Most slots point to other objects, which is a cheaper test than their names.  *data: the segment of the last slot,
 * nearly always of all. */
static int may_show(const struct mvld_image *image, const struct rimf_object *object, uint64_t offset,
                    const struct mvld_symbol *ifunc, const struct mvld_segment **data)
{
    uintptr_t slot = object->view.bias + offset, value;

    if (!*data || slot - (*data)->start >= (*data)->end - (*data)->start)
        *data = elf_segment_at(&object->view, slot);
    if (slot % 8 != 0 || !*data || !((*data)->prot & PROT_READ) || (*data)->end - slot < sizeof value)
        return 0;
    value = rimf_unmoved(image, __atomic_load_n((const uintptr_t *)slot, __ATOMIC_RELAXED));
    return value - ifunc->object->start < ifunc->object->end - ifunc->object->start;
}

/* Whether an IRELATIVE of the object itself names the resolver. */
static int choice_of_holder(const struct mvld_image *image, const struct mvld_symbol *ifunc,
                          struct resolved *entry)
{
    const struct rimf_object *holder = rimf_object_of(ifunc->object);
    const Elf64_Rela *table = holder->view.plt_relocations;

    for (size_t i = 0; i < holder->view.n_plt_relocations; i++)
        if (ELF64_R_TYPE(table[i].r_info) == R_X86_64_IRELATIVE &&
            holder->view.bias + (uint64_t)table[i].r_addend == ifunc->address &&
            shows_choice(image, holder, table[i].r_offset, ifunc, entry))
            return 1;
    return 0;
}

const char *slot_symbol(const struct rimf_object *object, uint32_t index, Elf64_Sym *symbol)
{
    if (!index || elf_symbol_at(&object->view, index, symbol))
        return NULL;
    return elf_string(&object->view, symbol->st_name);
}

/* Whether another object's slot for the same definition is bound. */
static int choice_elsewhere(const struct mvld_image *image, const struct rimf_object *object,
                            const struct mvld_symbol *ifunc, struct resolved *entry)
{
    const struct mvld_segment *data = NULL;

    for (size_t i = 0; i < object->view.n_plt_relocations; i++) {
        const Elf64_Rela *relocation = &object->view.plt_relocations[i];
        uint32_t index = (uint32_t)ELF64_R_SYM(relocation->r_info);
        struct mvld_symbol definition;
        Elf64_Sym symbol;

        if (!index || !slot_is(relocation, 1) ||
            !may_show(image, object, relocation->r_offset, ifunc, &data))
            continue;
        if (elf_symbol_at(&object->view, index, &symbol) ||
            !elf_string_is(&object->view, symbol.st_name, ifunc->name) ||
            rimf_symbol_bind(image, object, index, &definition) ||
            definition.address != ifunc->address)
            continue;
        if (shows_choice(image, object, relocation->r_offset, ifunc, entry))
            return 1;
    }
    return 0;
}

static int choice_anywhere(const struct mvld_image *image, const struct mvld_symbol *ifunc, struct resolved *entry)
{
    const struct rimf_table *table = rimf_table_enter(image);
    int found = 0;

    for (size_t i = 0; i < table->n_objects && !found; i++)
        found = table->objects[i]->global && choice_elsewhere(image, table->objects[i], ifunc, entry);
    rimf_table_leave(image);
    return found;
}

/* Sets the target.  This may search all relocations of all objects, and most objects need the same few
 * functions: the result is cached, also a negative one. */
static int ifunc_choice(struct mvld_image *image, const struct mvld_symbol *ifunc,
                        struct resolved *entry)
{
    struct rimf_choice *known = &image->choices[(ifunc->address >> 4) % RIMF_CHOICES];
    int found;

    if (known->ifunc == ifunc->address && known->update == image->updates) {
        entry->shown = known->shown;
        entry->target = known->target;
        return known->shown != 0;
    }
    found = choice_of_holder(image, ifunc, entry) || choice_anywhere(image, ifunc, entry);
    *known = (struct rimf_choice){ifunc->address, found ? entry->shown : 0,
                                  found ? entry->target : 0, image->updates};
    return found;
}

/* The definition that the reference is bound to: 0, or why it is not certain. */
static const char *definition_of(const struct mvld_image *image, const struct rimf_object *object,
                                 const Elf64_Sym *symbol, uint32_t index, struct mvld_symbol *out)
{
    int result;

    if (ELF64_ST_VISIBILITY(symbol->st_other) != STV_DEFAULT) {
        *out = (struct mvld_symbol){
            .name = elf_string(&object->view, symbol->st_name),
            .address = elf_symbol_address(&object->view, symbol),
            .type = ELF64_ST_TYPE(symbol->st_info),
            .object = &object->public,
        };
        return symbol->st_shndx == SHN_UNDEF ? no_definition : NULL;
    }
    if (image->has_filter)
        return filtered;
    result = rimf_symbol_bind(image, object, index, out);
    if (result)
        return result == -EAGAIN ? later_definition : no_definition;
    if (!rimf_object_of(out->object)->global)
        return later_definition;
    return out->binding == STB_GNU_UNIQUE ? unique : NULL;
}

void slot_finish(struct mvld_image *image, const struct rimf_object *object, uint32_t index, struct resolved *entry)
{
    struct mvld_symbol definition;
    Elf64_Sym symbol;

    entry->known = 1;
    entry->target = 0;
    if (!object->global) {
        entry->why = came_later;
        return;
    }
    if (!slot_symbol(object, index, &symbol)) {
        entry->why = no_definition;
        return;
    }
    entry->why = definition_of(image, object, &symbol, index, &definition);
    if (entry->why)
        return;
    entry->target = definition.address;
    if (definition.type == STT_GNU_IFUNC && !ifunc_choice(image, &definition, entry))
        entry->why = unknown_choice;
    else if (definition.type == STT_TLS || !entry->target)
        entry->why = no_definition;
}
