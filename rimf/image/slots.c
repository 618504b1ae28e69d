/* SPDX-License-Identifier: MIT
 *
 * rimf/image/slots.c: the targets of calls through GOT slots.
 *
 * A slot is recognised by its relocation: JUMP_SLOT (of the PLT), GLOB_DAT, or an IRELATIVE of the PLT.  A
 * pointer in a program's data, which looks the same to a `call *mem` and may change at any time, has
 * another one (64, RELATIVE), and is no slot.
 *
 * Bound: the memory has the target, by whatever rule.  All slots of an object with DT_BIND_NOW are bound,
 * unless calls are audited (rimf_auditor), which is checked before.
 *
 * Lazy: the host loader will look the symbol up at the first call.  The result is predicted, see below.
 *
 * A pass that queries all slots of an object spends most of its time reading memory.  So the index has four
 * bytes for each slot, the relocation's number; the symbol and its name, each in another cache line, are
 * read only for a name.
 */
#include "rimf/image/private.h"

#include "rimf/base/base.h"
#include "rimf/image/original.h"

#include <errno.h>    /* numbers only */
#include <sys/mman.h> /* numbers only */

#define TWICE (1u << 31) /* two relocations fill it */

/* Of a lazy slot, once queried. */
struct resolved {
    uintptr_t target;
    uintptr_t shown; /* by another slot, or 0 */
    const char *why;
    int known;
};

struct rimf_slots {
    size_t n, mask;
    uint32_t *hash; /* open addressing: index + 1, 0: free */
    struct resolved *resolved; /* of each; memory that is not touched while no slot is lazy */
    uintptr_t relro; /* elf_relro */
    size_t relro_size;
    uint32_t entries[];        /* numbers of relocations, those of the PLT first; or-ed with TWICE */
};

/* ---- the index ---------------------------------------------------------------- */

/* Adjacent slots have adjacent hashes. */
static size_t hash_of(uint64_t offset)
{
    return (size_t)(offset >> 3);
}

static const Elf64_Rela *relocation_of(const struct elf_view *view, uint32_t entry)
{
    uint32_t number = entry & ~TWICE;

    return number < view->n_plt_relocations ? &view->plt_relocations[number]
                                            : &view->relocations[number - view->n_plt_relocations];
}

#define NOWHERE ((size_t)-1)

/* Its index, or NOWHERE. */
static size_t lookup(const struct elf_view *view, const struct rimf_slots *slots, uint64_t offset)
{
    for (size_t at = hash_of(offset);; at++) {
        uint32_t index = slots->hash[at & slots->mask];

        if (!index)
            return NOWHERE;
        if (relocation_of(view, slots->entries[index - 1])->r_offset == offset)
            return index - 1;
    }
}

static void insert(const struct elf_view *view, struct rimf_slots *slots, uint32_t number)
{
    uint64_t offset = relocation_of(view, number)->r_offset;
    size_t known = lookup(view, slots, offset), at = hash_of(offset);

    if (known != NOWHERE) {
        slots->entries[known] |= TWICE;
        return;
    }
    while (slots->hash[at & slots->mask])
        at++;
    slots->entries[slots->n++] = number;
    slots->hash[at & slots->mask] = (uint32_t)slots->n;
}

static int slot_is(const Elf64_Rela *relocation, int of_plt)
{
    uint32_t type = ELF64_R_TYPE(relocation->r_info);

    return relocation->r_offset % 8 == 0 &&
           (of_plt ? type == R_X86_64_JUMP_SLOT || type == R_X86_64_IRELATIVE
                   : type == R_X86_64_GLOB_DAT);
}

/* Two readings of the tables agree: the host loader made them read-only; otherwise the program would have
 * to write them at this very moment. */
static size_t gather(const struct elf_view *view, struct rimf_slots *slots, size_t room)
{
    size_t n = 0;

    for (int of_plt = 0; of_plt < 2; of_plt++) {
        const Elf64_Rela *table = of_plt ? view->plt_relocations : view->relocations;
        size_t end = of_plt ? view->n_plt_relocations : view->n_relocations;

        for (size_t i = of_plt ? 0 : view->n_relative; i < end; i++) {
            if (!slot_is(&table[i], of_plt))
                continue;
            if (slots && n < room)
                insert(view, slots,
                       (uint32_t)(of_plt ? i : view->n_plt_relocations + i));
            n++;
        }
    }
    return n;
}

static struct rimf_slots *slots_of(struct mvld_image *image, struct rimf_object *object)
{
    size_t n, size = 16, places;
    struct rimf_slots *slots;

    if (object->slots)
        return object->slots;
    if (object->view.n_plt_relocations + object->view.n_relocations >= TWICE)
        return NULL;
    n = gather(&object->view, NULL, 0);
    while (size < 2 * n)
        size *= 2;
    places = sizeof *slots + ((n + size) * sizeof(uint32_t) + 7) / 8 * 8;
    slots = rimf_heap_alloc(&image->heap, places + n * sizeof *slots->resolved);
    if (!slots)
        return NULL;
    slots->mask = size - 1;
    slots->hash = slots->entries + n;
    slots->resolved = (struct resolved *)((uintptr_t)slots + places);
    gather(&object->view, slots, n);
    slots->relro_size = elf_relro(&object->view, &slots->relro);
    object->slots = slots;
    return slots;
}

/* ---- lazy slots ----------------------------------------------------------------------
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
 * which we must not call.  Its earlier result is in a slot of its own object, whose IRELATIVE names the
 * resolver, if that object calls the function, too.  glibc's resolvers look at the CPU and at tunables alone;
 * another library's may look at its variables, and choose otherwise at the first call.
 */

static const char *const came_later = "bound at the first call: its object came by dlopen";
static const char *const no_definition = "bound at the first call: nothing defines its symbol";
static const char *const later_definition =
    "bound at the first call: objects that came by dlopen define its symbol";
static const char *const unique = "bound at the first call: its symbol is unique in the process";
static const char *const unknown_choice =
    "bound at the first call: an IFUNC, whose choice no slot of its object shows";
static const char *const unknown_resolver =
    "bound at the first call: an IFUNC, whose resolver may choose otherwise then";
static const char *const filtered = "bound at the first call: an object is a filter";

/* The name of symbol `index`, or NULL. */
static const char *symbol_at(const struct rimf_object *object, uint32_t index, Elf64_Sym *symbol)
{
    if (!index || elf_symbol_at(&object->view, index, symbol))
        return NULL;
    return elf_string(&object->view, symbol->st_name);
}

/* Its version tells. */
static int is_of_glibc(const struct mvld_symbol *symbol)
{
    static const char prefix[] = "GLIBC_";

    return symbol->version && rimf_strncmp(symbol->version, prefix, sizeof prefix - 1) == 0;
}

/* Sets the target, if an IRELATIVE of the resolver's object names the resolver: its slot has the choice, an address in
 * that object. */
static int ifunc_choice(const struct mvld_image *image, const struct mvld_symbol *ifunc, struct resolved *entry)
{
    const struct rimf_object *object = rimf_object_of(ifunc->object);
    const Elf64_Rela *table = object->view.plt_relocations;
    const struct mvld_object *holder;

    for (size_t i = 0; i < object->view.n_plt_relocations; i++) {
        if (ELF64_R_TYPE(table[i].r_info) != R_X86_64_IRELATIVE ||
            object->view.bias + (uint64_t)table[i].r_addend != ifunc->address)
            continue;
        entry->shown = object->view.bias + table[i].r_offset;
        if (rimf_slot_value(image, object, entry->shown, 1, &entry->target, &holder) == RIMF_SLOT_BOUND &&
            holder == ifunc->object)
            return 1;
    }
    return 0;
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

static void predict(const struct mvld_image *image, const struct rimf_object *object, uint32_t index,
                    struct resolved *entry)
{
    struct mvld_symbol definition;
    Elf64_Sym symbol;

    entry->known = 1;
    entry->target = 0;
    if (!object->global) {
        entry->why = came_later;
        return;
    }
    if (!symbol_at(object, index, &symbol)) {
        entry->why = no_definition;
        return;
    }
    entry->why = definition_of(image, object, &symbol, index, &definition);
    if (entry->why)
        return;
    entry->target = definition.address;
    if (definition.type == STT_GNU_IFUNC && !is_of_glibc(&definition))
        entry->why = unknown_resolver;
    else if (definition.type == STT_GNU_IFUNC && !ifunc_choice(image, &definition, entry))
        entry->why = unknown_choice;
    else if (definition.type == STT_TLS || !entry->target)
        entry->why = no_definition;
}

/* ---- answers ---------------------------------------------------------------------- */

static void answer(struct mvld_image *image, const struct rimf_object *object, size_t at,
                   struct mvld_slot *out, const struct mvld_object **holder)
{
    const struct rimf_slots *slots = object->slots;
    const Elf64_Rela *relocation = relocation_of(&object->view, slots->entries[at]);
    struct resolved *resolved = &slots->resolved[at];
    const struct rimf_retarget *wanted;
    uintptr_t bound = 0; /* in *holder */

    *out = (struct mvld_slot){.address = object->view.bias + relocation->r_offset};
    out->shown = out->address;
    if (out->address - slots->relro < slots->relro_size)
        out->flags |= MVLD_SLOT_RELRO;
    switch (rimf_slot_value(image, object, out->address, !object->view.now, &out->target, holder)) {
    case RIMF_SLOT_BOUND:
        bound = out->target;
        break;
    case RIMF_SLOT_LAZY:
        if (!resolved->known)
            predict(image, object, (uint32_t)ELF64_R_SYM(relocation->r_info), resolved);
        out->flags |= MVLD_SLOT_LAZY;
        out->target = resolved->target;
        out->why = resolved->why;
        if (resolved->shown)
            out->shown = resolved->shown;
        break;
    case RIMF_SLOT_ODD:
        out->why = "it does not hold the address of code";
    }
    if (slots->entries[at] & TWICE)
        out->why = "two relocations fill it";
    if (out->why)
        out->target = out->shown = 0;
    out->found = out->target;
    wanted = image->retargets.n ? rimf_retarget_at(image, out->address) : NULL;
    if (wanted)
        out->target = wanted->target;
    if (!out->target || out->target != bound)
        *holder = out->target ? rimf_object_find(image, out->target) : NULL;
}

static const char *name_at(const struct rimf_object *object, size_t at)
{
    const Elf64_Rela *relocation = relocation_of(&object->view, object->slots->entries[at]);
    Elf64_Sym symbol;

    return symbol_at(object, (uint32_t)ELF64_R_SYM(relocation->r_info), &symbol);
}

int rimf_slot_at(struct mvld_image *image, const struct mvld_object *public, size_t index,
                 struct mvld_slot *out)
{
    struct rimf_object *object = (struct rimf_object *)rimf_object_of(public);
    const struct mvld_object *holder;
    struct rimf_slots *slots;

    if (!image || !rimf_is_mapped(public) || !out)
        return -EINVAL;
    slots = slots_of(image, object);
    if (!slots)
        return -ENOMEM;
    if (index >= slots->n)
        return -ENOENT;
    answer(image, object, index, out, &holder);
    out->name = name_at(object, index);
    return 0;
}

int rimf_slot_target(struct mvld_image *image, const struct mvld_object *public, uintptr_t address,
                    struct mvld_slot *out, const struct mvld_object **holder)
{
    struct rimf_object *object = (struct rimf_object *)rimf_object_of(public);
    struct rimf_slots *slots = slots_of(image, object);
    size_t at;

    if (!slots)
        return -ENOMEM;
    at = lookup(&object->view, slots, address - object->view.bias);
    if (at == NOWHERE)
        return -ENOENT;
    answer(image, object, at, out, holder);
    return 0;
}

const char *rimf_slot_name(struct mvld_image *image, const struct mvld_object *public,
                           uintptr_t address)
{
    struct rimf_object *object = (struct rimf_object *)rimf_object_of(public);
    struct rimf_slots *slots = image && rimf_is_mapped(public) ? slots_of(image, object) : NULL;
    size_t at = slots ? lookup(&object->view, slots, address - object->view.bias) : NOWHERE;

    return at == NOWHERE ? NULL : name_at(object, at);
}
