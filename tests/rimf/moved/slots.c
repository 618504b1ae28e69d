/* SPDX-License-Identifier: MIT
 *
 * slots.c: where a GOT slot leads, as the process's memory and the file's
 * relocations say (moved.h).
 */
#include "moved.h"

/* The name of the symbol that the slot is relocated with, or NULL. */
static const char *slot_name(const struct seen_object *o, uint32_t slot)
{
    static const struct {
        int64_t table, size;
    } tables[] = {{DT_JMPREL, DT_PLTRELSZ}, {DT_RELA, DT_RELASZ}};
    const struct object *file = &o->analysis.object;

    for (size_t t = 0; t < 2; t++) {
        uint64_t size = object_tag(file, tables[t].size);
        const Elf64_Rela *rela =
            (const Elf64_Rela *)object_at(file, object_tag(file, tables[t].table), size);

        for (size_t i = 0; rela && i < size / sizeof *rela; i++) {
            const Elf64_Sym *symbol;

            if (rela[i].r_offset != slot || !ELF64_R_SYM(rela[i].r_info))
                continue;
            symbol = (const Elf64_Sym *)object_at(
                file, object_tag(file, DT_SYMTAB) + ELF64_R_SYM(rela[i].r_info) * sizeof *symbol,
                sizeof *symbol);
            return symbol ? (const char *)object_at(
                                file, object_tag(file, DT_STRTAB) + symbol->st_name, 1)
                          : NULL;
        }
    }
    return NULL;
}

/* 1 when `name` is a symbol of the object at this address, or a function that chooses
 * among several. */
static int names(const struct seen_object *o, const char *name, uintptr_t address)
{
    const struct object *file = &o->analysis.object;
    uint64_t table = object_tag(file, DT_SYMTAB), strings = object_tag(file, DT_STRTAB);
    const Elf64_Sym *s;

    /* Linkers put the names right behind the symbols. */
    for (uint64_t at = table; at + sizeof *s <= strings; at += sizeof *s) {
        const char *its;

        s = (const Elf64_Sym *)object_at(file, at, sizeof *s);
        its = s && s->st_shndx ? (const char *)object_at(file, strings + s->st_name, 1) : NULL;
        if (its && strcmp(its, name) == 0 &&
            (ELF64_ST_TYPE(s->st_info) == STT_GNU_IFUNC || o->bias + s->st_value == address))
            return 1;
    }
    return 0;
}

/* Its PLT entry: the slot was not bound when the process stopped. */
static int is_lazy(const struct seen_object *o, uintptr_t value)
{
    return value >= o->low && value < o->high && !unit_at(&o->analysis, value - o->bias);
}

/* What the PLT entry at `entry` of an executable at a fixed address, which does not move,
 * leads to: such an entry may stand for a function whose address it takes, for all objects.
 * `entry` itself when it is none. */
static uintptr_t through_plt(const struct process *p, uintptr_t entry)
{
    uint8_t code[11];
    uintptr_t value;
    size_t at;

    if (object_of(p, entry))
        return entry;
    process_read(p, entry, code, sizeof code);
    at = code[0] == 0xf3 ? 4 : 0;   /* endbr64 */
    at += code[at] == 0xf2;         /* bnd */
    if (code[at] != 0xff || code[at + 1] != 0x25 || at + 6 > sizeof code)
        return entry;
    process_read(p, entry + at + 6 + (uintptr_t)(intptr_t)distance_at(code + at + 2), &value,
                 sizeof value);
    return value;
}

static int is_target(struct process *p, const struct seen_object *o, uint32_t slot,
                     uintptr_t target)
{
    const struct seen_object *to;
    const char *name;
    uintptr_t value, behind;

    process_read(p, o->bias + slot, &value, sizeof value);
    value = original_of(p, value);
    behind = original_of(p, through_plt(p, value));
    if (value == target || behind == target)
        return 1;
    if (!is_lazy(o, value) && (behind == value || object_of(p, behind)))
        return 0;
    name = slot_name(o, slot);
    to = object_of(p, target);
    if (!name)
        return 0;
    if (!to) { /* of an object that did not move: nothing is known of its symbols here */
        p->n_elsewhere++;
        return 1;
    }
    p->n_foreseen++;
    return names(to, name, target);
}

/* Slots are asked for at each of their calls; what names say takes long to find. */
static struct answer {
    const struct seen_object *o;
    uint32_t slot;
    uintptr_t target;
} *answer_at(const struct seen_object *o, uint32_t slot)
{
    static struct answer answers[1 << 16];

    return &answers[(slot / 8 + (o->bias >> 12) * 31) % (sizeof answers / sizeof *answers)];
}

int slot_leads(struct process *p, const struct seen_object *o, uint32_t slot, uintptr_t target)
{
    struct answer *answer = answer_at(o, slot);

    if (answer->o == o && answer->slot == slot && answer->target == target)
        return 1;
    if (!is_target(p, o, slot, target))
        return 0;
    *answer = (struct answer){o, slot, target};
    return 1;
}
