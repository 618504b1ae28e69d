/* SPDX-License-Identifier: MIT
 *
 * pointers.c: which functions have the address that they moved to, and that all relocated
 * words say so (moved.h).
 */
#include "moved.h"

static int keeps_original(const struct seen_object *o, uint64_t linked)
{
    const struct analysis_fixed *fixed = o->analysis.fixed.at;

    for (size_t i = 0; i < o->analysis.fixed.n; i++)
        if (linked - fixed[i].start < fixed[i].size)
            return 1;
    return 0;
}

/* The loader stands in front of it: what moved is a jump back. */
static int runs_original(const struct process *p, const struct seen_object *o, const struct unit *u)
{
    uintptr_t original = o->bias + u->start, at = moved_to(p, original);
    uint8_t moved_at[JUMP];

    if (u->end - u->start < JUMP || !at)
        return 0;
    process_read(p, at, moved_at, sizeof moved_at);
    return moved_at[0] == 0xe9 &&
           at + JUMP + (uintptr_t)(intptr_t)distance_at(moved_at + 1) == original;
}

uintptr_t canonical_of(struct process *p, uintptr_t original)
{
    uintptr_t moved_at = moved_to(p, original);
    const struct seen_object *o = moved_at ? object_of(p, original) : NULL;

    if (!o || !o->moved || keeps_original(o, original - o->bias) ||
        runs_original(p, o, unit_at(&o->analysis, original - o->bias)))
        return original;
    return moved_at;
}

/* What the word at `linked` holds; a slot of the PLT may have been bound since, to the original. */
static void check_word(struct process *p, struct seen_object *o, uint64_t linked, int bound_late)
{
    uintptr_t value;

    if (!object_segment(&o->analysis.object, linked))
        return;
    process_read(p, o->bias + linked, &value, sizeof value);
    p->n_pointers += original_of(p, value) != value;
    if (!bound_late && canonical_of(p, value) != value)
        wrong(p, o, linked, "a pointer leads to 0x%lx, whose canonical address is another",
              (unsigned long)value);
}

static void check_table(struct process *p, struct seen_object *o, int64_t tag, uint64_t size)
{
    const struct object *file = &o->analysis.object;
    const Elf64_Rela *r = (const Elf64_Rela *)object_at(file, object_tag(file, tag), size);

    for (size_t i = 0; r && i < size / sizeof *r; i++)
        switch (ELF64_R_TYPE(r[i].r_info)) {
        case R_X86_64_JUMP_SLOT: check_word(p, o, r[i].r_offset, 1); break;
        case R_X86_64_64:
        case R_X86_64_GLOB_DAT:
        case R_X86_64_RELATIVE:
        case R_X86_64_IRELATIVE: check_word(p, o, r[i].r_offset, 0); break;
        }
}

static void check_relr(struct process *p, struct seen_object *o)
{
    const struct object *file = &o->analysis.object;
    uint64_t size = object_tag(file, DT_RELRSZ), place = 0;
    const uint64_t *r = (const uint64_t *)object_at(file, object_tag(file, DT_RELR), size);

    for (size_t i = 0; r && i < size / sizeof *r; i++) {
        if (!(r[i] & 1)) {
            check_word(p, o, r[i], 0);
            place = r[i] + 8;
            continue;
        }
        for (unsigned bit = 1; bit < 64; bit++)
            if (r[i] >> bit & 1)
                check_word(p, o, place + 8 * (bit - 1), 0);
        place += 63 * 8;
    }
}

void check_pointers(struct process *p, struct seen_object *o)
{
    const struct object *file = &o->analysis.object;
    const struct unit *units = units_of(&o->analysis);

    for (size_t i = 0; i < o->analysis.units.n; i++)
        p->n_moved += canonical_of(p, o->bias + units[i].start) != o->bias + units[i].start;
    check_table(p, o, DT_RELA, object_tag(file, DT_RELASZ));
    check_table(p, o, DT_JMPREL, object_tag(file, DT_PLTRELSZ));
    check_relr(p, o);
}
