/* SPDX-License-Identifier: MIT
 *
 * truth FILE...: compares what the analyser finds with what the linker knew.
 *
 * Files are linked with --emit-relocs: the relocations of the input stay in the output,
 * and say of each displacement in the code what it is.  A failure means: `missed`, that
 * a function which moves would read the wrong place; `invented`, that a call would be
 * patched which is none; `other`, that it would go to the wrong function.
 *
 * Relocations of TLS sequences are stale after the linker relaxed them, and say
 * nothing; nor does anything within such a sequence.
 */
#include "../../check.h"

#include "rimf/analyze/analyser.h"

struct place { /* a relocation of four bytes, relative to where it stands */
    uint32_t address;
    uint8_t type, decoded, branch, used;
    const char *name;
    uint64_t value;
};

struct truth {
    struct analyser a;
    struct vector places; /* struct place, sorted */
    size_t missed, invented, other, stays, checked, calls;
};

#define SECTIONS(o) ((const Elf64_Shdr *)((o)->file + (o)->header.e_shoff))

/* ---- what the linker knew ------------------------------------------------------------- */

static int is_relative(uint32_t type)
{
    return type == R_X86_64_PC32 || type == R_X86_64_PLT32 || type == R_X86_64_GOTPCREL ||
           type == R_X86_64_GOTPCRELX || type == R_X86_64_REX_GOTPCRELX;
}

static int is_tls(uint32_t type)
{
    return type == R_X86_64_TLSGD || type == R_X86_64_TLSLD || type == R_X86_64_GOTTPOFF ||
           type == R_X86_64_GOTPC32_TLSDESC || type == R_X86_64_TLSDESC_CALL;
}

static int by_address(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    return x->address < y->address ? -1 : x->address > y->address;
}

/* jmp *slot(%rip) that became jmp function; nop: its distance is a byte earlier now. */
static uint32_t moved(const struct object *o, const Elf64_Rela *r)
{
    const uint8_t *at = object_at(o, r->r_offset - 2, 6);

    return ELF64_R_TYPE(r->r_info) == R_X86_64_GOTPCRELX && at && at[0] == 0xe9 && at[5] == 0x90;
}

static void take_section(struct truth *t, const Elf64_Shdr *rela)
{
    const struct object *o = &t->a.object;
    const Elf64_Shdr *symtab = &SECTIONS(o)[rela->sh_link];
    const Elf64_Sym *symbols = (const Elf64_Sym *)(o->file + symtab->sh_offset);
    const char *names = (const char *)o->file + SECTIONS(o)[symtab->sh_link].sh_offset;
    const Elf64_Rela *r = (const Elf64_Rela *)(o->file + rela->sh_offset);

    for (size_t i = 0; i < rela->sh_size / sizeof *r; i++) {
        const Elf64_Sym *s = &symbols[ELF64_R_SYM(r[i].r_info)];
        uint32_t type = ELF64_R_TYPE(r[i].r_info);

        if (is_relative(type) || is_tls(type))
            VECTOR_ADD(&t->places, struct place,
                       .address = (uint32_t)r[i].r_offset - moved(o, &r[i]),
                       .type = (uint8_t)type, .name = names + s->st_name,
                       .value = s->st_shndx ? s->st_value + (uint64_t)r[i].r_addend : 0);
    }
}

static void take_places(struct truth *t)
{
    const struct object *o = &t->a.object;
    const Elf64_Shdr *section = SECTIONS(o);

    for (size_t i = 0; i < o->header.e_shnum; i++)
        if (section[i].sh_type == SHT_RELA && !(section[i].sh_flags & SHF_ALLOC) &&
            section[section[i].sh_info].sh_flags & SHF_EXECINSTR)
            take_section(t, &section[i]);
    CHECK(t->places.n > 0, "it was linked without --emit-relocs");
    qsort(t->places.at, t->places.n, sizeof(struct place), by_address);
}

static struct place *place_at(const struct truth *t, uint32_t address)
{
    struct place key = {.address = address};

    return bsearch(&key, t->places.at, t->places.n, sizeof key, by_address);
}

/* A relaxed TLS sequence has at most 22 bytes. */
static int near_tls(const struct truth *t, uint32_t address)
{
    const struct place *places = t->places.at;
    size_t i = RIMF_BISECT(k, t->places.n, places[k].address + 22 < address);

    for (; i < t->places.n && places[i].address <= address + 22; i++)
        if (is_tls(places[i].type))
            return 1;
    return 0;
}

/* ---- symbols of slots --------------------------------------------------------------------- */

static const Elf64_Rela *relocation_of(const struct object *o, uint32_t slot)
{
    const int64_t tags[2][2] = {{DT_RELA, DT_RELASZ}, {DT_JMPREL, DT_PLTRELSZ}};

    for (int i = 0; i < 2; i++) {
        const Elf64_Rela *r = (const Elf64_Rela *)object_at(o, object_tag(o, tags[i][0]), 0);

        for (uint64_t n = object_tag(o, tags[i][1]) / sizeof *r; r && n; n--, r++)
            if (r->r_offset == slot)
                return r;
    }
    return NULL;
}

/* Names of the full table may have a version behind them. */
static int same_name(const char *full, const char *dynamic)
{
    size_t n = strcspn(full, "@");

    return n == strlen(dynamic) && !memcmp(full, dynamic, n);
}

/* Of an IFUNC, the symbol's value is the resolver, or, with lld, the PLT entry. */
static int is_right_slot(const struct object *o, uint32_t slot, const struct place *p)
{
    const Elf64_Rela *r = relocation_of(o, slot);
    const Elf64_Sym *symbols = (const Elf64_Sym *)object_at(o, object_tag(o, DT_SYMTAB), 0);
    const char *names = (const char *)object_at(o, object_tag(o, DT_STRTAB), 0);

    if (!r)
        return 0;
    if (ELF64_R_TYPE(r->r_info) == R_X86_64_IRELATIVE) {
        int32_t distance;

        memcpy(&distance, object_at(o, p->address, 4), 4);
        return p->value + 4 == (uint64_t)r->r_addend ||
               p->value == p->address + (uint64_t)(int64_t)distance;
    }
    return same_name(p->name, names + symbols[ELF64_R_SYM(r->r_info)].st_name);
}

/* ---- comparing ----------------------------------------------------------------------- */

static void complain(size_t *count, const char *what, uint32_t at, const struct place *p)
{
    if ((*count)++ < 10)
        fprintf(stderr, "%s: 0x%x, relocation %d %s\n", what, at, p ? p->type : 0,
                p ? p->name : "");
}

/* An immediate where a GOT slot's distance stood: the linker put the address itself
 * there, since it is fixed.  Nothing of such an object moves. */
static void pass_over_immediate(const struct truth *t, uint32_t at, const struct instruction *i)
{
    struct place *p = i->immediate_size == 4 ? place_at(t, at + i->immediate_at) : NULL;

    if (p && p->type >= R_X86_64_GOTPCREL && t->a.object.flags & ANALYSIS_FIXED)
        p->decoded = p->used = 1;
}

/* Marks the place of each displacement that was decoded. */
static void mark_decoded(struct truth *t, const struct unit *u)
{
    const uint8_t *code = unit_code(&t->a, u, u->start);
    struct instruction i;

    for (uint32_t at = u->start; at < u->end; at += i.length, code += i.length) {
        struct place *p;

        CHECK(decode(code, u->end - at, &i) > 0);
        p = i.rip ? place_at(t, at + i.displacement_at)
            : flow_is_relative(instruction_flow(&i)) && i.immediate_size == 4
                ? place_at(t, at + i.immediate_at)
                : NULL;
        if (p) {
            p->decoded = 1;
            p->branch = !i.rip;
        } else {
            pass_over_immediate(t, at, &i);
        }
    }
}

static void compare_calls(struct truth *t)
{
    const struct analysis_call *calls = t->a.calls.at;

    for (size_t i = 0; i < t->a.calls.n; i++) {
        uint32_t at = calls[i].address + (analysis_call_length(&calls[i]) == 5 ? 1 : 2);
        struct place *p = place_at(t, at);

        t->calls++;
        if (!p || is_tls(p->type)) {
            if (!near_tls(t, at))
                complain(&t->invented, "a call that is none", at, p);
            continue;
        }
        p->used = 1;
        if (!is_right_slot(&t->a.object, analysis_slot(&calls[i]), p))
            complain(&t->other, "a call to another function", at, p);
    }
}

/* A PLT that the linker spoilt, and that so was not recognised, is no input. */
static int in_plt(const struct object *o, uint32_t address)
{
    const Elf64_Shdr *section = SECTIONS(o);
    const char *names = (const char *)o->file + section[o->header.e_shstrndx].sh_offset;

    for (size_t i = 0; i < o->header.e_shnum; i++)
        if (section[i].sh_flags & SHF_ALLOC &&
            address - section[i].sh_addr < section[i].sh_size)
            return !strncmp(names + section[i].sh_name, ".plt", 4);
    return 0;
}

static void compare_references(struct truth *t)
{
    const struct analysis_reference *references = t->a.references.at;

    for (size_t i = 0; i < t->a.references.n; i++) {
        struct place *p = place_at(t, references[i].address);

        if (p)
            p->used = 1;
        /* The assembler itself resolves distances inside a section. */
        else if (references[i].kind != ANALYSIS_BRANCH_ORIGINAL &&
                 references[i].kind != ANALYSIS_TO_ORIGINAL &&
                 references[i].kind != ANALYSIS_TO_CODE &&
                 !in_plt(&t->a.object, references[i].address))
            complain(&t->invented, "a reference that is none", references[i].address, NULL);
    }
}

/* Where the displacement leads is in the bytes; that it need not be corrected, only
 * units that move can say, and only of branches. */
static void compare_places(struct truth *t)
{
    struct place *places = t->places.at;

    for (size_t i = 0; i < t->places.n; i++) {
        struct place *p = &places[i];
        const struct unit *u = unit_at(&t->a, p->address), *to = NULL;
        int32_t distance;

        if (!u || u->reason) {
            t->stays++;
            continue;
        }
        if (is_tls(p->type) || (!p->decoded && near_tls(t, p->address)))
            continue;
        t->checked++;
        if (!p->decoded)
            complain(&t->missed, "no displacement was decoded", p->address, p);
        if (p->used || !p->decoded)
            continue;
        memcpy(&distance, object_at(&t->a.object, p->address, 4), 4);
        for (uint32_t rest = 0; rest <= 4 && !to; rest++) /* behind it, an immediate */
            to = unit_at(&t->a, p->address + 4 + rest + (uint64_t)(int64_t)distance);
        if (!to || to->reason)
            complain(&t->missed, "what it leads to does not move", p->address, p);
        else if (!p->branch)
            complain(&t->missed, "an operand that leads to code is not listed", p->address, p);
    }
}

static int compare_file(const char *path, size_t *checked)
{
    struct truth t = {0};
    int failed;

    CHECK(analyser_run(&t.a, path) == 0, "%s: %s", path, t.a.object.error);
    take_places(&t);
    for (size_t i = 0; i < t.a.units.n; i++)
        if (unit_is_decoded(&units_of(&t.a)[i]))
            mark_decoded(&t, &units_of(&t.a)[i]);
    compare_calls(&t);
    compare_references(&t);
    compare_places(&t);
    printf("%s: %zu relocations compared, %zu in code that stays; %zu calls; %zu missed, "
           "%zu invented, %zu other\n",
           path, t.checked, t.stays, t.calls, t.missed, t.invented, t.other);
    failed = t.missed || t.invented || t.other;
    *checked += t.checked;
    vector_free(&t.places);
    analyser_free(&t.a);
    return failed;
}

int main(int argc, char **argv)
{
    size_t checked = 0;
    int failed = 0;

    for (int i = 1; i < argc; i++)
        failed |= compare_file(argv[i], &checked);
    return failed ? 1 : checked ? 0 : SKIP; /* an archive may be empty */
}
