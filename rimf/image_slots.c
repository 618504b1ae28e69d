/* SPDX-License-Identifier: MIT
 *
 * rimf/image_slots.c: where a call through a GOT slot ends.
 *
 * A slot is known by its relocation: JUMP_SLOT (of the PLT), GLOB_DAT, or an IRELATIVE
 * of the PLT.  A pointer in a program's data, which looks the same to a `call *mem`
 * and may change at any time, has another one (64, RELATIVE), and is no slot.
 *
 * Bound: the memory tells, whatever rule led there.  All slots of an object that says so are
 * (DT_BIND_NOW), unless somebody watches calls (rimf_plt_watcher), which is asked before.
 *
 * Lazy: the host loader will look the symbol up at the first call.  What it will find
 * is certain only when all of these hold, and then it is what rimf_symbol_bind finds:
 *
 *     the object was there at start     its scope begins with the global one, which only
 *                                       grows at the end
 *     the definition was, too           so nothing that comes later precedes it
 *     it is not STB_GNU_UNIQUE          one that was bound elsewhere before would win
 *     no object is a filter             filters answer for others
 *
 * A symbol with another visibility than default is its object's own.  Of an IFUNC, the
 * resolver decides; it is not ours to call.  What it answered before is in the slots
 * that are bound already: its own object's IRELATIVE ones name the resolver, others
 * the symbol.
 */
#include "image_private.h"

#include "base.h"
#include "copies.h"

#include <errno.h> /* numbers only */

struct entry {
    uint64_t offset; /* of the slot, as linked */
    uint32_t symbol;
    uint8_t type;    /* R_X86_64_* */
    uint8_t settled; /* the answer for a lazy one is below */
    uint8_t twice;   /* two relocations fill it */
    uintptr_t target;
    uintptr_t shown; /* by another slot than itself, or 0 */
    const char *why;
};

struct rimf_slots {
    size_t n, mask;
    uint32_t *hash; /* open addressing: index + 1, 0: free */
    uintptr_t relro; /* copy_relro */
    size_t relro_size;
    struct entry entries[];
};

/* ---- the index ---------------------------------------------------------------- */

static int is_slot(const Elf64_Rela *relocation, int of_plt)
{
    uint32_t type = ELF64_R_TYPE(relocation->r_info);

    return relocation->r_offset % 8 == 0 &&
           (of_plt ? type == R_X86_64_JUMP_SLOT || type == R_X86_64_IRELATIVE
                   : type == R_X86_64_GLOB_DAT);
}

/* Slots lie side by side, and so do their places. */
static size_t hash_of(uint64_t offset)
{
    return (size_t)(offset >> 3);
}

static struct entry *lookup(const struct rimf_slots *slots, uint64_t offset)
{
    for (size_t at = hash_of(offset);; at++) {
        uint32_t index = slots->hash[at & slots->mask];

        if (!index)
            return NULL;
        if (slots->entries[index - 1].offset == offset)
            return (struct entry *)&slots->entries[index - 1];
    }
}

static void insert(struct rimf_slots *slots, const Elf64_Rela *relocation)
{
    struct entry *known = lookup(slots, relocation->r_offset);
    size_t at = hash_of(relocation->r_offset);

    if (known) {
        known->twice = 1;
        return;
    }
    while (slots->hash[at & slots->mask])
        at++;
    slots->entries[slots->n++] = (struct entry){
        .offset = relocation->r_offset,
        .symbol = (uint32_t)ELF64_R_SYM(relocation->r_info),
        .type = (uint8_t)ELF64_R_TYPE(relocation->r_info),
    };
    slots->hash[at & slots->mask] = (uint32_t)slots->n;
}

/* The tables say the same at each reading: the host loader made them read-only, or
 * the program would have to write them this very moment. */
static size_t gather(const struct elf_view *view, struct rimf_slots *slots, size_t room)
{
    size_t n = 0;

    for (int of_plt = 0; of_plt < 2; of_plt++) {
        const Elf64_Rela *table = of_plt ? view->plt_relocations : view->relocations;
        size_t end = of_plt ? view->n_plt_relocations : view->n_relocations;

        for (size_t i = of_plt ? 0 : view->n_relative; i < end; i++) {
            if (!is_slot(&table[i], of_plt))
                continue;
            if (slots && n < room)
                insert(slots, &table[i]);
            n++;
        }
    }
    return n;
}

static struct rimf_slots *slots_of(struct mvld_image *image, struct rimf_object *object)
{
    size_t n, size = 16;
    struct rimf_slots *slots;

    if (object->slots)
        return object->slots;
    n = gather(&object->view, NULL, 0);
    while (size < 2 * n)
        size *= 2;
    if (n > UINT32_MAX / 4)
        return NULL;
    slots = rimf_heap_alloc(&image->heap, sizeof *slots + n * sizeof *slots->entries +
                                              size * sizeof *slots->hash);
    if (!slots)
        return NULL;
    slots->mask = size - 1;
    slots->hash = (uint32_t *)(slots->entries + n);
    gather(&object->view, slots, n);
    slots->relro_size = copy_relro(object, &slots->relro);
    object->slots = slots;
    return slots;
}

/* ---- lazy slots ----------------------------------------------------------------- */

static const char *const came_later = "bound at the first call: its object came by dlopen";
static const char *const no_definition = "bound at the first call: nothing defines its symbol";
static const char *const later_definition =
    "bound at the first call: objects that came by dlopen define its symbol";
static const char *const unique = "bound at the first call: its symbol is unique in the process";
static const char *const unknown_choice =
    "bound at the first call: an IFUNC, whose choice no other slot shows";
static const char *const filtered = "bound at the first call: an object is a filter";
static const char *const filled_twice = "two relocations fill it";
static const char *const no_function = "it does not hold the address of code";

int rimf_has_filter(const struct mvld_image *image)
{
    const struct rimf_table *table = rimf_table_enter(image);
    int found = 0;

    for (size_t i = 0; i < table->n_objects && !found; i++)
        found = table->objects[i]->global && table->objects[i]->view.filter;
    rimf_table_leave(image);
    return found;
}

/* The slot holds what the resolver chose: inside the object that has the resolver.  (An
 * executable's PLT entry may stand for the function in other slots.) */
static int shows_choice(const struct mvld_image *image, const struct rimf_object *object,
                        uint64_t offset, const struct mvld_symbol *ifunc, struct entry *entry)
{
    entry->shown = object->view.bias + offset;
    return rimf_slot_value(image, object, entry->shown, 1, &entry->target) == RIMF_SLOT_BOUND &&
           rimf_object_find(image, entry->target) == ifunc->object;
}

/* Most slots lead to other objects, which is seen sooner than what they are called. */
static int may_show(const struct mvld_image *image, const struct rimf_object *object,
                    uint64_t offset, const struct mvld_symbol *ifunc)
{
    uintptr_t slot = object->view.bias + offset, value, home;

    if (slot % 8 != 0 || elf_room(&object->view, slot) < sizeof value)
        return 0;
    value = __atomic_load_n((const uintptr_t *)slot, __ATOMIC_RELAXED);
    home = rimf_copy_home(image, value);
    value = home ? home : value;
    return value - ifunc->object->start < ifunc->object->end - ifunc->object->start;
}

/* Does an IRELATIVE of the object itself name the resolver? */
static int choice_at_home(const struct mvld_image *image, const struct mvld_symbol *ifunc,
                          struct entry *entry)
{
    const struct rimf_object *home = rimf_object_of(ifunc->object);
    const Elf64_Rela *table = home->view.plt_relocations;

    for (size_t i = 0; i < home->view.n_plt_relocations; i++)
        if (ELF64_R_TYPE(table[i].r_info) == R_X86_64_IRELATIVE &&
            home->view.bias + (uint64_t)table[i].r_addend == ifunc->address &&
            shows_choice(image, home, table[i].r_offset, ifunc, entry))
            return 1;
    return 0;
}

static const char *symbol_name(const struct rimf_object *object, uint32_t index,
                               Elf64_Sym *symbol)
{
    if (!index || elf_symbol_at(&object->view, index, symbol))
        return NULL;
    return elf_string(&object->view, symbol->st_name);
}

/* Is another object's slot for the same definition bound? */
static int choice_elsewhere(const struct mvld_image *image, const struct rimf_object *object,
                            const struct mvld_symbol *ifunc, struct entry *entry)
{
    for (size_t i = 0; i < object->view.n_plt_relocations; i++) {
        const Elf64_Rela *relocation = &object->view.plt_relocations[i];
        uint32_t index = (uint32_t)ELF64_R_SYM(relocation->r_info);
        struct mvld_symbol definition;
        Elf64_Sym symbol;

        if (!index || !is_slot(relocation, 1) ||
            !may_show(image, object, relocation->r_offset, ifunc) || elf_symbol_at(&object->view, index, &symbol) ||
            !elf_string_is(&object->view, symbol.st_name, ifunc->name) ||
            rimf_symbol_bind(image, object, index, &definition) ||
            definition.address != ifunc->address)
            continue;
        if (shows_choice(image, object, relocation->r_offset, ifunc, entry))
            return 1;
    }
    return 0;
}

/* Fills the target.  All relocations of all objects may be looked through for it, and most
 * objects ask for the same few functions: the answer is kept, also that there is none. */
static int ifunc_choice(struct mvld_image *image, const struct mvld_symbol *ifunc,
                        struct entry *entry)
{
    struct rimf_choice *known = &image->choices[(ifunc->address >> 4) % RIMF_CHOICES];
    const struct rimf_table *table;
    int found;

    if (known->ifunc == ifunc->address && known->update == image->updates) {
        entry->shown = known->shown;
        entry->target = known->target;
        return known->shown != 0;
    }
    found = choice_at_home(image, ifunc, entry);
    table = rimf_table_enter(image);
    for (size_t i = 0; i < table->n_objects && !found; i++)
        found = table->objects[i]->global &&
                choice_elsewhere(image, table->objects[i], ifunc, entry);
    rimf_table_leave(image);
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
    if (rimf_has_filter(image))
        return filtered;
    result = rimf_symbol_bind(image, object, index, out);
    if (result)
        return result == -EAGAIN ? later_definition : no_definition;
    if (!rimf_object_of(out->object)->global)
        return later_definition;
    return out->binding == STB_GNU_UNIQUE ? unique : NULL;
}

static void settle(struct mvld_image *image, const struct rimf_object *object,
                   struct entry *entry)
{
    struct mvld_symbol definition;
    Elf64_Sym symbol;

    entry->settled = 1;
    entry->target = 0;
    if (!object->global) {
        entry->why = came_later;
        return;
    }
    if (!symbol_name(object, entry->symbol, &symbol)) {
        entry->why = no_definition;
        return;
    }
    entry->why = definition_of(image, object, &symbol, entry->symbol, &definition);
    if (entry->why)
        return;
    entry->target = definition.address;
    if (definition.type == STT_GNU_IFUNC && !ifunc_choice(image, &definition, entry))
        entry->why = unknown_choice;
    else if (definition.type == STT_TLS || !entry->target)
        entry->why = no_definition;
}

/* ---- answers ---------------------------------------------------------------------- */

static void answer(struct mvld_image *image, const struct rimf_object *object,
                   struct entry *entry, struct mvld_slot *out)
{
    Elf64_Sym symbol;

    *out = (struct mvld_slot){
        .address = object->view.bias + entry->offset,
        .name = symbol_name(object, entry->symbol, &symbol),
    };
    out->shown = out->address;
    if (out->address - object->slots->relro < object->slots->relro_size)
        out->flags |= MVLD_SLOT_RELRO;
    switch (rimf_slot_value(image, object, out->address, !object->view.now, &out->target)) {
    case RIMF_SLOT_BOUND:
        break;
    case RIMF_SLOT_LAZY:
        if (!entry->settled)
            settle(image, object, entry);
        out->flags |= MVLD_SLOT_LAZY;
        out->target = entry->target;
        out->why = entry->why;
        if (entry->shown)
            out->shown = entry->shown;
        break;
    case RIMF_SLOT_ODD:
        out->why = no_function;
    }
    if (entry->twice)
        out->why = filled_twice;
    if (out->why)
        out->target = out->shown = 0;
}

int rimf_slot_at(struct mvld_image *image, const struct mvld_object *public, size_t index,
                 struct mvld_slot *out)
{
    struct rimf_object *object = (struct rimf_object *)rimf_object_of(public);
    struct rimf_slots *slots = slots_of(image, object);

    if (!slots)
        return -ENOMEM;
    if (index >= slots->n)
        return -ENOENT;
    answer(image, object, &slots->entries[index], out);
    return 0;
}

int rimf_slot_find(struct mvld_image *image, const struct mvld_object *public, uintptr_t address,
                   struct mvld_slot *out)
{
    struct rimf_object *object = (struct rimf_object *)rimf_object_of(public);
    struct rimf_slots *slots = slots_of(image, object);
    struct entry *entry;

    if (!slots)
        return -ENOMEM;
    entry = lookup(slots, address - object->view.bias);
    if (!entry)
        return -ENOENT;
    answer(image, object, entry, out);
    return 0;
}
