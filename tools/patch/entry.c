/* SPDX-License-Identifier: MIT
 *
 * patch/entry.c: tells whether a jump can replace a function's first bytes.
 *
 * It cannot if anything leads behind the first of them: the function's own branches and jump tables,
 * branches of 32 bits anywhere in the file (whatever looks like one counts, unless the function that it is in
 * has another instruction there), relocated words, addresses in a program that is not relocated, short branches of
 * the code around it.
 */
#include "tools/patch/patch.h"
#include "tools/show/descriptors.h"

#include "rimf/x86/displace.h"

#include <string.h>

struct entry {
    const struct elf_file *file;
    const uint8_t *code;
    uint64_t start, size;
    uint64_t first, end; /* what is to be replaced; nothing may lead behind `first` */
};

static int is_inside(const struct entry *e, uint64_t address)
{
    return address > e->first && address < e->end;
}

/* Whether four bytes, at this offset of code, may be a distance from the next instruction: that of call, jmp, jcc or
 * xbegin, or an operand's. */
static int may_be_distance(const uint8_t *code, uint64_t at)
{
    uint8_t last = at > 0 ? code[at - 1] : 0, before = at > 1 ? code[at - 2] : 0;

    return (last & 0xfe) == 0xe8 || (before == 0x0f && (last & 0xf0) == 0x80) || (before == 0xc7 && last == 0xf8) ||
           (last & 0xc7) == 0x05;
}

/* Whether they are something else: decoded from its start, the function around them has no distance there. */
static int is_no_distance(const struct entry *e, uint64_t at)
{
    const struct elf_symbol *f = elf_function_at(e->file, at);
    const uint8_t *code = f ? e->file->bytes + elf_offset(e->file, f->address) : NULL;
    struct instruction i;
    uint64_t in = 0;

    if (!f || !elf_file_holds(e->file, f->address, f->size, PF_X))
        return 0;
    for (uint64_t wanted = at - f->address; decode(code + in, f->size - in, &i); in += i.length)
        if (in + i.length > wanted)
            return !(i.rip && in + i.displacement_at == wanted) &&
                   !(flow_is_relative(instruction_flow(&i)) && in + i.immediate_at == wanted);
    return 0;
}

/* Searches the whole file, without knowing instruction boundaries. */
static int has_branch(const struct entry *e)
{
    for (size_t i = 0; i < e->file->phnum; i++) {
        const Elf64_Phdr *p = &e->file->phdr[i];
        const uint8_t *bytes = e->file->bytes + p->p_offset;

        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X) || elf_offset(e->file, p->p_vaddr) < 0)
            continue;
        for (uint64_t at = 0; at + 4 <= p->p_filesz; at++)
            if (is_inside(e, p->p_vaddr + at + 4 + (uint64_t)distance_at(bytes + at)) &&
                p->p_vaddr + at - e->start >= e->size && /* its own were decoded */
                may_be_distance(bytes, at) && !is_no_distance(e, p->p_vaddr + at))
                return 1;
    }
    return 0;
}

#define BEFORE 4096 /* how far a function that the file names is looked for: instructions begin there */
#define UNNAMED 512 /* else from here on: wherever decoding begins, it soon meets instructions */
#define SHORT 130   /* a short branch, with its own bytes, reaches no farther */

/* Decodes from `at` to `end`: does a short branch lead there?  What is no instruction is passed over. */
static int has_short_in(const struct entry *e, uint64_t at, uint64_t end)
{
    struct instruction i;

    for (unsigned length; at < end; at += length) {
        int64_t offset = elf_offset(e->file, at);
        const uint8_t *code = e->file->bytes + offset;

        length = 1;
        if (offset < 0 || !elf_file_holds(e->file, at, end - at, PF_X) || !decode(code, end - at, &i))
            continue;
        length = i.length;
        if (i.immediate_size == 1 && flow_is_relative(instruction_flow(&i)) && is_inside(e, branch_target(code, at, &i)))
            return 1;
    }
    return 0;
}

/* The code around the function: assembly may go from one function into another. */
static int has_short_branch(const struct entry *e)
{
    const Elf64_Phdr *segment = NULL;
    uint64_t from, end;

    for (size_t i = 0; i < e->file->phnum; i++)
        if (e->file->phdr[i].p_type == PT_LOAD && e->start - e->file->phdr[i].p_vaddr < e->file->phdr[i].p_filesz)
            segment = &e->file->phdr[i];
    if (!segment)
        return 1;
    from = e->start - segment->p_vaddr < UNNAMED ? segment->p_vaddr : e->start - UNNAMED;
    for (size_t i = 0; i < e->file->n_functions; i++) { /* the last of those that begin far enough */
        const struct elf_symbol *s = &e->file->functions[i];

        if (s->address >= segment->p_vaddr && s->address + SHORT <= e->start && e->start - s->address < BEFORE)
            from = s->address;
    }
    end = segment->p_vaddr + segment->p_filesz - (e->start + e->size);
    end = e->start + e->size + (end < SHORT ? end : SHORT);
    return has_short_in(e, from, e->start) || has_short_in(e, e->start + e->size, end);
}

/* A program that is not relocated has addresses as they are, in its code and in its data: four bytes, or eight. */
static int has_fixed(const struct entry *e)
{
    for (size_t i = 0; e->file->header.e_type == ET_EXEC && i < e->file->phnum; i++) {
        const Elf64_Phdr *p = &e->file->phdr[i];
        const uint8_t *bytes = e->file->bytes + p->p_offset;

        if (p->p_type != PT_LOAD || elf_offset(e->file, p->p_vaddr) < 0)
            continue;
        for (uint64_t at = 0; at + 4 <= p->p_filesz; at += p->p_flags & PF_X ? 1 : 4)
            if (is_inside(e, (uint32_t)distance_at(bytes + at)))
                return 1;
    }
    return 0;
}

static int has_word(const struct entry *e)
{
    for (size_t i = 0; i < e->file->n_relocations; i++)
        if (is_inside(e, (uint64_t)e->file->relocations[i].r_addend))
            return 1;
    return 0;
}

/* Entries are distances from their table; the first that leads out of the function ends the table. */
static int leads_inside(const struct entry *e, uint64_t table)
{
    int32_t distance;

    for (uint64_t at = table; !elf_read(e->file, at, &distance, sizeof distance); at += sizeof distance) {
        uint64_t target = table + (uint64_t)(int64_t)distance;

        if (target - e->start >= e->size)
            break;
        if (is_inside(e, target))
            return 1;
    }
    return 0;
}

static int has_table(const struct entry *e)
{
    struct instruction i;

    for (uint64_t at = 0; at < e->size; at += i.length) {
        uint64_t table;

        if (!decode(e->code + at, e->size - at, &i))
            return 0;
        if (!instruction_is(&i, 0, 0x8d) || !i.rip)
            continue;
        table = rip_target(e->code + at, e->start + at, &i);
        if (!elf_file_holds(e->file, table, 4, PF_X) && leads_inside(e, table))
            return 1;
    }
    return 0;
}

static int is_variation_point(struct elf_file *file, uint64_t address)
{
    struct descriptors d = {0};
    int found = 0;

    if (!descriptors_read(file, &d))
        for (size_t i = 0; i < d.n_functions; i++)
            found |= !d.functions[i].is_pointer && d.functions[i].body == address;
    descriptors_free(&d);
    return found;
}

const char *entry_check(struct elf_file *file, const struct elf_symbol *symbol, unsigned *skip)
{
    int64_t offset = elf_offset(file, symbol->address);
    struct entry e = {.file = file, .start = symbol->address, .size = symbol->size};
    struct displaced over;
    const char *why;

    if (symbol->is_ifunc)
        return "it only says which function is to be called (an IFUNC), at the start of the program";
    if (offset < 0 || !elf_file_holds(file, e.start, e.size, PF_X))
        return "it is no code of the file";
    e.code = file->bytes + offset;
    why = displace_over(e.code, e.size, e.start, &over);
    if (why)
        return why;
    *skip = over.skip;
    e.first = e.start + over.skip;
    e.end = e.first + PATCH_JUMP;
    if (has_branch(&e) || has_short_branch(&e) || has_table(&e) || has_word(&e) || has_fixed(&e))
        return "something leads to its first bytes, behind its entry";
    return is_variation_point(file, e.start) ? "it is a variation point: who calls it may call its variants" : NULL;
}
