/* SPDX-License-Identifier: MIT
 *
 * code.c: instructions of moved code against those of the file, and the original bytes
 * (moved.h).  Zydis says where instructions begin and what of them is a distance; the
 * analysis, where functions are and which calls go through slots.
 */
#include "moved.h"

#include <Zydis/Zydis.h>

/* An instruction of a movable unit. */
struct site {
    struct seen_object *o;
    uint32_t linked;
    const uint8_t *was, *is; /* in the file, where it moved to */
    uintptr_t address;       /* of that */
    ZydisDecodedInstruction z;
};

static uintptr_t here(const struct seen_object *o, uint32_t linked)
{
    return place_of(o, o->bias + linked);
}

/* The call through a slot whose opcode lies in [from, to), or NULL. */
static const struct analysis_call *call_in(const struct seen_object *o, uint32_t from, uint32_t to)
{
    const struct analysis_call *calls = o->analysis.calls.at;
    size_t i = analysis_first_from(calls, o->analysis.calls.n, sizeof *calls, from);

    return i < o->analysis.calls.n && calls[i].address < to ? &calls[i] : NULL;
}

/* ---- calls of other objects ------------------------------------------------------------- */

uintptr_t call_leads(const struct seen_object *o, const struct analysis_call *call, const uint8_t *was,
                     const uint8_t *is, uintptr_t at, int *direct)
{
    unsigned opcode = 1, length = analysis_call_length(call);
    uintptr_t target, same;

    switch (analysis_call_kind(call)) {
    case ANALYSIS_CALL_SLOT:
    case ANALYSIS_JMP_SLOT:
        *direct = memcmp(was, is, 2) != 0;
        if (!*direct)
            return at + 6 + (uintptr_t)(intptr_t)distance_at(is + 2) ==
                           o->bias + analysis_slot(call)
                       ? o->bias + analysis_slot(call)
                       : 0;
        if (analysis_call_kind(call) == ANALYSIS_CALL_SLOT) /* 67 e8: addr32 call */
            return is[0] == 0x67 && is[1] == 0xe8
                       ? at + 6 + (uintptr_t)(intptr_t)distance_at(is + 2)
                       : 0;
        return is[0] == 0xe9 && is[5] == 0x90 /* jmp; nop */
                   ? at + 5 + (uintptr_t)(intptr_t)distance_at(is + 1)
                   : 0;
    case ANALYSIS_JCC_PLT:
        opcode = 2;
        break;
    default:
        break;
    }
    if (memcmp(was, is, opcode) != 0)
        return 0;
    same = o->bias + call->address + length + (uintptr_t)(intptr_t)distance_at(was + opcode);
    target = at + length + (uintptr_t)(intptr_t)distance_at(is + opcode);
    *direct = target != same;
    return target;
}

/* Where the call should lead: to moved code, if that is there whenever this is. */
static uintptr_t wanted(const struct process *p, const struct seen_object *o, uintptr_t original)
{
    const struct seen_object *to = object_of(p, original);
    uintptr_t moved_at = moved_to(p, original);

    return !moved_at || (o->overlaid && to && to->overlaid && to != o) ? original : moved_at;
}

static void check_call(struct process *p, const struct site *s, const struct analysis_call *call)
{
    const struct seen_object *o = s->o;
    uint32_t prefixes = call->address - s->linked;
    uintptr_t target, original;
    int direct = 0;

    target = call_leads(o, call, s->was + prefixes, s->is + prefixes, s->address + prefixes,
                        &direct);
    if (!target || memcmp(s->was, s->is, prefixes) != 0) {
        wrong(p, o, s->linked, "a call is no call through its slot, nor one made direct");
        return;
    }
    if (!direct) {
        p->n_through++;
        return;
    }
    p->n_direct++;
    original = original_of(p, target);
    p->n_across += original != target;
    if (!slot_leads(p, o, analysis_slot(call), original))
        wrong(p, o, s->linked, "a call leads to 0x%lx, its slot elsewhere", (unsigned long)original);
    if (target != wanted(p, o, original))
        wrong(p, o, s->linked, "a call leads to 0x%lx, which moved to 0x%lx",
              (unsigned long)target, (unsigned long)moved_to(p, original));
}

/* ---- branches and operands ----------------------------------------------------------------- */

static int same_but(const struct site *s, unsigned at, unsigned size)
{
    unsigned behind = at + size;

    return memcmp(s->was, s->is, at) == 0 &&
           memcmp(s->was + behind, s->is + behind, s->z.length - behind) == 0;
}

static void check_branch(struct process *p, const struct site *s)
{
    const struct seen_object *o = s->o;
    unsigned at = s->z.raw.imm[0].offset;
    uint64_t target = s->linked + s->z.length + (uint64_t)s->z.raw.imm[0].value.s;
    uintptr_t moved_at = moved_to(p, o->bias + target), is;

    p->n_branches++;
    if (s->z.raw.imm[0].size == 8) {
        if (memcmp(s->was, s->is, s->z.length) != 0 || !moved_at)
            wrong(p, o, s->linked, "a branch of one byte changed, or leads to no moved code");
        return;
    }
    is = s->address + s->z.length + (uintptr_t)(intptr_t)distance_at(s->is + at);
    if (!same_but(s, at, 4))
        wrong(p, o, s->linked, "a branch became something else");
    else if (is != (moved_at ? moved_at : o->bias + target))
        wrong(p, o, s->linked, "a branch leads to 0x%lx instead of 0x%lx", (unsigned long)is,
              (unsigned long)(moved_at ? moved_at : o->bias + target));
}

/* The jump table that covers the address; their number: there is none. */
static size_t table_at(const struct seen_object *o, uint64_t address)
{
    const struct analysis_jump_table *tables = o->analysis.jump_tables.at;
    size_t n = o->analysis.jump_tables.n, begun = RIMF_BISECT(i, n, tables[i].address <= address);

    return begun && address - tables[begun - 1].address < 4ul * tables[begun - 1].count ? begun - 1 : n;
}

/* The displacement is that of a lea by which a table is jumped through. */
static int is_dispatch(const struct seen_object *o, uint64_t displacement)
{
    const struct analysis_reference *r = o->analysis.references.at;

    for (size_t i = 0; i < o->analysis.references.n; i++)
        if (r[i].address == displacement)
            return r[i].kind == ANALYSIS_TO_JUMP_TABLE;
    return 0;
}

/* The operand is the start of a jump table, or lies inside.  Tables that moved all stand behind the
 * first code of their object; who adds up a table's start and one of its entries must find both
 * in moved code, or neither. */
static void check_table_reference(struct process *p, const struct site *s, size_t table,
                                  uint64_t target, uintptr_t is)
{
    struct seen_object *o = s->o;
    uint32_t start = ((struct analysis_jump_table *)o->analysis.jump_tables.at)[table].address;

    if (is == o->bias + target && !is_dispatch(o, s->linked + s->z.raw.disp.offset)) {
        o->stay[table] = 1;
        return;
    }
    if (!o->tables[table])
        o->tables[table] = is - (target - start);
    if (is < o->fragments[0].at + o->fragments[0].code || original_of(p, is) != is || is - (target - start) != o->tables[table])
        wrong(p, o, s->linked, "%s jump table leads to 0x%lx",
              target == start ? "the start of a" : "an entry of a", (unsigned long)is);
}

static void check_operand(struct process *p, const struct site *s)
{
    struct seen_object *o = s->o;
    unsigned at = s->z.raw.disp.offset;
    uint64_t target = s->linked + s->z.length + (uint64_t)s->z.raw.disp.value;
    uintptr_t is = s->address + s->z.length + (uintptr_t)(intptr_t)distance_at(s->is + at);
    uintptr_t original = o->bias + target;
    size_t table;

    p->n_operands++;
    if (!same_but(s, at, 4)) {
        wrong(p, o, s->linked, "an instruction with an operand became another one");
        return;
    }
    table = table_at(o, target);
    if (table < o->analysis.jump_tables.n)
        check_table_reference(p, s, table, target, is);
    else if (is != canonical_of(p, original) && s->z.mnemonic != ZYDIS_MNEMONIC_NOP &&
             s->z.mnemonic != ZYDIS_MNEMONIC_UD1)
        wrong(p, o, s->linked, "an operand leads to 0x%lx instead of 0x%lx", (unsigned long)is,
              (unsigned long)canonical_of(p, original));
}

static void check_instruction(struct process *p, const struct site *s)
{
    const struct analysis_call *call = call_in(s->o, s->linked, s->linked + s->z.length);
    int rip = s->z.attributes & ZYDIS_ATTRIB_HAS_MODRM && s->z.raw.modrm.mod == 0 &&
              s->z.raw.modrm.rm == 5;

    p->n_instructions++;
    if (call)
        check_call(p, s, call);
    else if (s->z.raw.imm[0].is_relative)
        check_branch(p, s);
    else if (rip)
        check_operand(p, s);
    else if (memcmp(s->was, s->is, s->z.length) != 0)
        wrong(p, s->o, s->linked, "an instruction changed");
}

/* ---- jump tables ------------------------------------------------------------------------------ */

static void check_table(struct process *p, struct seen_object *o, size_t i)
{
    const struct analysis_jump_table *table = (struct analysis_jump_table *)o->analysis.jump_tables.at
                                             + i;
    const uint8_t *was = object_at(&o->analysis.object, table->address, 4ul * table->count);
    uint8_t *is = malloc(4ul * table->count);

    CHECK(was && is);
    process_read(p, o->tables[i], is, 4ul * table->count);
    p->n_tables++;
    for (uint32_t k = 0; k < table->count; k++) {
        uintptr_t original = o->bias + table->address +
                         (uintptr_t)(intptr_t)distance_at(was + 4 * k);
        uintptr_t target = o->tables[i] + (uintptr_t)(intptr_t)distance_at(is + 4 * k);

        /* An entry for what cannot happen leads right behind a function. */
        if (target !=
            (moved_to(p, original) ? moved_to(p, original) : moved_to(p, original - 1) + 1))
            wrong(p, o, table->address, "entry %u of a jump table leads to 0x%lx", k,
                  (unsigned long)target);
    }
    free(is);
}

static void check_tables(struct process *p, struct seen_object *o)
{
    const struct analysis_jump_table *tables = o->analysis.jump_tables.at;
    uintptr_t free_from = o->fragments[0].at + o->fragments[0].code;

    for (size_t i = 0; i < o->analysis.jump_tables.n; i++) {
        if (o->tables[i] && o->stay[i])
            wrong(p, o, tables[i].address, "a jump table is used where it moved to, and where it was");
        if (!o->tables[i])
            continue;
        if (o->tables[i] < free_from)
            wrong(p, o, tables[i].address, "two jump tables that moved overlap");
        free_from = o->tables[i] + 4ul * tables[i].count;
        check_table(p, o, i);
    }
}

/* ---- moved code --------------------------------------------------------------------------------- */

/* A few functions that are asked for addresses run where they were mapped, in front of them the loader: what
 * moved is a jump to there, and there is one to a stub. */
static int is_kept(struct process *p, struct seen_object *o, const struct unit *u)
{
    uintptr_t original = o->bias + u->start;
    const uint8_t *is = byte_of(o, original);
    uint8_t original_bytes[JUMP];

    if (u->end - u->start < JUMP || is[0] != 0xe9 ||
        here(o, u->start) + JUMP + (uintptr_t)(intptr_t)distance_at(is + 1) != original)
        return 0;
    if (memcmp(unit_code(&o->analysis, u, u->start), endbr64, sizeof endbr64) == 0)
        original += sizeof endbr64;
    process_read(p, original, original_bytes, sizeof original_bytes);
    if (p->n_kept == KEPT_MAX || original_bytes[0] != 0xe9 ||
        original + JUMP + (uintptr_t)(intptr_t)distance_at(original_bytes + 1) - p->library >= 4096)
        wrong(p, o, u->start, "what moved of it is a jump back");
    else
        p->kept[p->n_kept++] = original;
    return 1;
}

/* Behind its last instruction, what runs on there finds what it would in the original. */
static void check_end(struct process *p, const struct site *s, const struct unit *u)
{
    const struct unit *units = units_of(&s->o->analysis), *next = u + 1;

    if (s->z.meta.category == ZYDIS_CATEGORY_UNCOND_BR || s->z.meta.category == ZYDIS_CATEGORY_RET ||
        (s->z.meta.category == ZYDIS_CATEGORY_CALL && next->start != u->end) ||
        s->z.mnemonic == ZYDIS_MNEMONIC_UD2 ||
        s->z.mnemonic == ZYDIS_MNEMONIC_HLT || s->z.mnemonic == ZYDIS_MNEMONIC_INT3 ||
        s->z.mnemonic == ZYDIS_MNEMONIC_NOP || next == units + s->o->analysis.units.n)
        return;
    p->n_falls++;
    if (next->reason || here(s->o, next->start) - here(s->o, u->start) != next->start - u->start)
        wrong(p, s->o, u->end, "it runs on into something else");
}

static void check_unit(struct process *p, const ZydisDecoder *decoder, struct seen_object *o,
                       const struct unit *u)
{
    const uint8_t *code = unit_code(&o->analysis, u, u->start);
    ZydisDecoderContext context;
    struct site s = {.o = o};

    if (!here(o, u->start) || here(o, u->end - 1) - here(o, u->start) != u->end - 1 - u->start) {
        wrong(p, o, u->start, "a movable function did not move");
        return;
    }
    if (is_kept(p, o, u))
        return;
    for (uint32_t at = u->start; at < u->end; at += s.z.length) {
        s.linked = at;
        s.address = here(o, at);
        s.was = code + (at - u->start);
        s.is = byte_of(o, o->bias + at);
        if (ZYAN_FAILED(ZydisDecoderDecodeInstruction(decoder, &context, s.was, u->end - at,
                                                      &s.z))) {
            wrong(p, o, at, "no instruction that is known");
            return;
        }
        check_instruction(p, &s);
    }
    check_end(p, &s, u);
}

/* What stays must not seem to be here. */
static void check_empty(struct process *p, const struct seen_object *o, const struct unit *u)
{
    for (uint32_t at = u->start; at < u->end; at++)
        if (here(o, at) && *byte_of(o, o->bias + at) != 0xcc) {
            wrong(p, o, at, "a function that stays has moved");
            return;
        }
}

void check_code(struct process *p, struct seen_object *o)
{
    const struct unit *units = units_of(&o->analysis);
    ZydisDecoder decoder;

    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    for (size_t i = 0; i < o->analysis.units.n; i++) {
        if (units[i].reason)
            check_empty(p, o, &units[i]);
        else
            check_unit(p, &decoder, o, &units[i]);
    }
    check_tables(p, o);
}
