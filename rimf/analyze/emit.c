/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/emit.c: emits what passes need of units: for decoded units calls through PLT and GOT, for movable
 * units references.
 */
#include "rimf/analyze/analyser.h"

static int may_move(const struct unit *u)
{
    return u && !u->reason;
}

static void add_reference(struct analyser *a, const struct unit *u, uint32_t at,
                          const struct instruction *i, uint8_t operand_at,
                          enum analysis_reference_kind kind)
{
    if (may_move(u))
        VECTOR_ADD(&a->references, struct analysis_reference, at + operand_at, (uint8_t)kind,
                   (uint8_t)(i->length - operand_at - 4), 0);
}

static void add_call(struct analyser *a, uint32_t at, const struct instruction *i, uint32_t slot,
                     enum analysis_call_kind kind)
{
    VECTOR_ADD(&a->calls, struct analysis_call, at + i->opcode_at, slot | kind);
}

/* ---- branches --------------------------------------------------------------------------- */

static enum analysis_call_kind plt_kind(const struct instruction *i)
{
    /* bnd, a hint, and 67, which linkers put before a call to fill a byte, have no effect; 66 has none
     * before REX.W, and others were refused as odd. */
    if (i->prefixes & (PREFIX_LOCK | PREFIX_REP))
        return 0;
    switch (instruction_flow(i)) {
    case FLOW_CALL: return ANALYSIS_CALL_PLT;
    case FLOW_JUMP: return ANALYSIS_JMP_PLT;
    case FLOW_BRANCH: return i->map == 1 ? ANALYSIS_JCC_PLT : 0; /* or xbegin */
    default: return 0;
    }
}

static void emit_branch(struct analyser *a, const struct unit *u, uint32_t at,
                        const struct instruction *i, uint64_t target)
{
    const struct unit *to;
    uint32_t slot;

    if (i->immediate_size != 4 || (target >= u->start && target < u->end))
        return;
    to = unit_at(a, target);
    slot = to ? 0 : plt_slot(a, target);
    if (slot && plt_kind(i))
        add_call(a, at, i, slot, plt_kind(i));
    else if (!may_move(to))
        add_reference(a, u, at, i, i->immediate_at, ANALYSIS_BRANCH_ORIGINAL);
    else if (may_move(u))
        VECTOR_ADD(&a->branches, struct analysis_branch, at + i->immediate_at);
}

/* ---- operands ----------------------------------------------------------------------------- */

/* After 66 the call that replaces this one would mean something else. */
static enum analysis_call_kind slot_kind(const struct instruction *i)
{
    if (!instruction_is(i, 0, 0xff) ||
        i->prefixes & (PREFIX_OPERAND | PREFIX_ADDRESS | PREFIX_LOCK | PREFIX_REP))
        return 0;
    return modrm_reg(i) == 2 ? ANALYSIS_CALL_SLOT : modrm_reg(i) == 4 ? ANALYSIS_JMP_SLOT : 0;
}

static enum analysis_reference_kind kind_of(const struct analyser *a, uint64_t target)
{
    const struct segment *s = object_segment(&a->object, target);

    if (s && s->flags & PF_W)
        return ANALYSIS_TO_DATA;
    return s && s->flags & PF_X ? ANALYSIS_TO_ORIGINAL : ANALYSIS_TO_RODATA;
}

static void emit_operand(struct analyser *a, const struct unit *u, uint32_t at,
                         const struct instruction *i, uint64_t target)
{
    enum analysis_reference_kind kind;

    if (slot_kind(i) && object_is_slot(&a->object, target)) {
        add_call(a, at, i, (uint32_t)target, slot_kind(i));
        return;
    }
    if (!may_move(u))
        return;
    kind = may_move(unit_at(a, target)) ? ANALYSIS_TO_CODE : kind_of(a, target);
    add_reference(a, u, at, i, i->displacement_at, kind);
}

static void emit_unit(struct analyser *a, const struct unit *u)
{
    const uint8_t *code = unit_code(a, u, u->start);
    struct instruction i;

    for (uint32_t at = u->start; at < u->end; at += i.length, code += i.length) {
        if (!decode(code, u->end - at, &i))
            return; /* cannot happen: the unit is decoded */
        if (flow_is_relative(instruction_flow(&i)))
            emit_branch(a, u, at, &i, branch_target(code, at, &i));
        else if (i.rip && !rip_is_idle(&i))
            emit_operand(a, u, at, &i, rip_target(code, at, &i));
    }
}

/* A run time that looks its code up may also compare its bytes with those of another process: list no
 * calls.  Nor of code that may look for its file in the mappings. */
void emit_units(struct analyser *a)
{
    if (a->object.flags & (ANALYSIS_LOOKED_UP | ANALYSIS_MAPS))
        return;
    for (size_t i = 0; i < a->units.n; i++)
        if (unit_is_decoded(&units_of(a)[i]))
            emit_unit(a, &units_of(a)[i]);
}

/* ---- names -------------------------------------------------------------------------------------
 *
 * What debuggers shall find of moved code (analysis/analysis.h, SYMBOLS): the functions
 * that either symbol table of the file names, where they may move.
 */

/* By place and name, so that what both tables say stands side by side. */
static int by_start(const void *a, const void *b)
{
    const struct function *x = a, *y = b;

    return x->start != y->start ? (x->start < y->start ? -1 : 1) : strcmp(x->name, y->name);
}

static void add_symbol(struct analyser *a, const struct function *f, uint32_t first)
{
    Elf64_Sym symbol = {
        .st_name = (Elf64_Word)a->names.n,
        .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
        .st_shndx = ANALYSIS_SYMBOLS_IN,
        .st_value = f->start - first,
        .st_size = f->size,
    };

    vector_add(&a->symbols, &symbol, sizeof symbol);
    for (const char *c = f->name;; c++) {
        vector_add(&a->names, c, 1);
        if (!*c)
            return;
    }
}

void emit_names(struct analyser *a)
{
    struct function *functions = a->object.functions.at, *last = NULL;
    const struct unit *units = units_of(a);
    size_t n = a->object.functions.n, first = 0;

    while (first < a->units.n && units[first].reason)
        first++;
    if (a->object.flags || first == a->units.n)
        return;
    vector_add(&a->symbols, &(Elf64_Sym){0}, sizeof(Elf64_Sym)); /* the empty ones: a file without */
    vector_add(&a->names, "", 1);                                /* names says where frames are */
    if (n)
        qsort(functions, n, sizeof *functions, by_start);
    for (size_t i = 0; i < n; i++) {
        const struct unit *unit = unit_at(a, functions[i].start);

        if (!unit || unit->reason || !*functions[i].name ||
            (last && by_start(last, &functions[i]) == 0))
            continue;
        last = &functions[i];
        add_symbol(a, last, units[first].start);
    }
}
