/* SPDX-License-Identifier: MIT
 *
 * heads FILE...: where a jump may be written over a function's first bytes, against
 * Zydis.  It decodes executable sections, from each place where a function is said to
 * start to the next; whatever branches, relocations, symbols and words that may be a jump table's
 * lead to, none is the second to fifth byte of a head, and functions that something other
 * than movable code leads to are known as such.
 *
 * A failure means that a program would run into the middle of a jump, or that a function
 * is entered by pointers and nobody knew.
 */
#include "../../check.h"

#include "rimf/analyze/analyser.h"

#include <Zydis/Zydis.h>

struct seen {
    struct analyser a;
    uint8_t *led;     /* by address: something leads here */
    uint8_t *outside; /* … and that is not a branch of movable code */
    struct vector starts; /* uint32_t: where decoding begins anew */
    struct vector taken;  /* uint32_t: what lea addresses */
    ZydisDecoder decoder;
    size_t heads, reached, n_bad;
};

static void lead(struct seen *s, uint64_t target, int outside)
{
    if (target >= s->a.object.high)
        return;
    s->led[target] = 1;
    s->outside[target] |= (uint8_t)outside;
}

static const Elf64_Shdr *section_at(const struct object *o, uint64_t address)
{
    size_t n;
    const Elf64_Shdr *section = object_sections(o, &n);

    for (size_t i = 0; i < n; i++)
        if (section[i].sh_flags & SHF_ALLOC && address - section[i].sh_addr < section[i].sh_size)
            return &section[i];
    return NULL;
}

static int is_code_section(const Elf64_Shdr *section)
{
    return section && section->sh_flags & SHF_EXECINSTR && section->sh_type == SHT_PROGBITS;
}

/* Up to the next place that is addressed: one table often stands behind another. */
static void follow_words(struct seen *s, uint64_t table, uint64_t end)
{
    const Elf64_Shdr *section = section_at(&s->a.object, table);
    int32_t offset;

    if (!section || is_code_section(section) || section->sh_type != SHT_PROGBITS)
        return;
    if (end > section->sh_addr + section->sh_size)
        end = section->sh_addr + section->sh_size;
    for (uint64_t at = table; at + 4 <= end; at += 4) {
        memcpy(&offset, s->a.object.file + section->sh_offset + (at - section->sh_addr), 4);
        if (!is_code_section(section_at(&s->a.object, table + (uint64_t)(int64_t)offset)))
            return;
        lead(s, table + (uint64_t)(int64_t)offset, 0);
    }
}

static void look(struct seen *s, const ZydisDecodedInstruction *z, uint64_t address)
{
    const struct unit *u = unit_at(&s->a, address);
    uint64_t next = address + z->length;

    if (z->attributes & ZYDIS_ATTRIB_IS_RELATIVE && z->raw.imm[0].is_relative)
        lead(s, next + (uint64_t)z->raw.imm[0].value.s, !u || u->reason);
    if (z->mnemonic == ZYDIS_MNEMONIC_LEA && z->raw.modrm.mod == 0 && z->raw.modrm.rm == 5) {
        lead(s, next + (uint64_t)z->raw.disp.value, 1);
        VECTOR_ADD(&s->taken, uint32_t, (uint32_t)(next + (uint64_t)z->raw.disp.value));
    }
}

static void sweep(struct seen *s, uint64_t address, uint64_t size)
{
    const uint8_t *at = object_at(&s->a.object, address, size);

    while (at && size) {
        ZydisDecodedInstruction z;
        ZydisDecoderContext context;
        int known = ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&s->decoder, &context, at, size, &z));
        size_t step = known ? z.length : 1;

        if (known)
            look(s, &z, address);
        at += step;
        address += step;
        size -= step;
    }
}

/* A table of sh_type: its entries in the file. */
static void take_section(struct seen *s, const Elf64_Shdr *section)
{
    const uint8_t *bytes = s->a.object.file + section->sh_offset;
    const Elf64_Rela *r = (const Elf64_Rela *)bytes;
    const Elf64_Sym *symbol = (const Elf64_Sym *)bytes;

    if (section->sh_type == SHT_RELA && section->sh_flags & SHF_ALLOC)
        for (; (const uint8_t *)r < bytes + section->sh_size; r++)
            if (ELF64_R_TYPE(r->r_info) == R_X86_64_RELATIVE ||
                ELF64_R_TYPE(r->r_info) == R_X86_64_IRELATIVE)
                lead(s, (uint64_t)r->r_addend, 1);
    if (section->sh_type == SHT_DYNSYM || section->sh_type == SHT_SYMTAB)
        for (; (const uint8_t *)symbol < bytes + section->sh_size; symbol++) {
            unsigned type = ELF64_ST_TYPE(symbol->st_info);

            if (!symbol->st_shndx || (type != STT_FUNC && type != STT_GNU_IFUNC))
                continue;
            lead(s, symbol->st_value, 1);
            VECTOR_ADD(&s->starts, uint32_t, (uint32_t)symbol->st_value);
        }
}

/* From each start to the next one; sections have theirs. */
static void sweep_all(struct seen *s)
{
    const struct frame *frames = s->a.frames.at;
    const uint32_t *starts, *taken;
    size_t n;
    const Elf64_Shdr *section = object_sections(&s->a.object, &n);

    for (size_t i = 0; i < s->a.frames.n; i++)
        VECTOR_ADD(&s->starts, uint32_t, frames[i].start);
    for (size_t i = 0; i < n; i++)
        if (is_code_section(&section[i])) {
            VECTOR_ADD(&s->starts, uint32_t, (uint32_t)section[i].sh_addr);
            VECTOR_ADD(&s->starts, uint32_t, (uint32_t)(section[i].sh_addr + section[i].sh_size));
        }
    sort_addresses(&s->starts);
    starts = s->starts.at;
    for (size_t i = 0; i + 1 < s->starts.n; i++)
        if (is_code_section(section_at(&s->a.object, starts[i])))
            sweep(s, starts[i], starts[i + 1] - starts[i]);
    sort_addresses(&s->taken);
    taken = s->taken.at;
    for (size_t i = 0; i < s->taken.n; i++)
        follow_words(s, taken[i], i + 1 < s->taken.n ? taken[i + 1] : UINT64_MAX);
}

static void complain(struct seen *s, const char *what, const struct unit *u, uint32_t at)
{
    if (s->n_bad++ < 10)
        fprintf(stderr, "0x%x: %s, 0x%x\n", u->start, what, at);
}

static void compare(struct seen *s, const struct unit *u)
{
    const uint8_t *code = unit_code(&s->a, u, u->start);
    uint32_t head = u->start;

    if (u->end - u->start >= 4 && !memcmp(code, "\xf3\x0f\x1e\xfa", 4))
        head += 4;
    if (u->reason && (u->reached || u->head))
        complain(s, "it stays", u, 0);
    if (!u->reason && !u->reached && (s->outside[u->start] || s->outside[head]))
        complain(s, "it is entered by others", u, 0);
    s->reached += u->reached;
    if (!u->head)
        return;
    s->heads++;
    if (!u->reached || u->end - head < 5)
        complain(s, "it has no room for a head", u, 0);
    for (uint32_t at = head + 1; at < head + 5; at++)
        if (s->led[at])
            complain(s, "something leads into its head", u, at);
}

static int compare_file(const char *path)
{
    struct seen s = {0};
    const Elf64_Shdr *section;
    size_t n;
    int failed;

    CHECK(analyser_run(&s.a, path) == 0, "%s: %s", path, s.a.object.error);
    ZydisDecoderInit(&s.decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    s.led = calloc(2, s.a.object.high);
    CHECK(s.led, "no memory");
    s.outside = s.led + s.a.object.high;
    section = object_sections(&s.a.object, &n);
    for (size_t i = 0; i < n; i++)
        take_section(&s, &section[i]);
    sweep_all(&s);
    lead(&s, s.a.object.header.e_entry, 1);
    for (size_t i = 0; i < s.a.units.n; i++)
        compare(&s, &units_of(&s.a)[i]);
    printf("%s: %zu functions, %zu reached, %zu heads, %zu wrong\n", path, s.a.units.n, s.reached,
           s.heads, s.n_bad);
    failed = s.n_bad != 0;
    free(s.led);
    vector_free(&s.starts);
    vector_free(&s.taken);
    analyser_free(&s.a);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;

    for (int i = 1; i < argc; i++)
        failed |= compare_file(argv[i]);
    return failed;
}
