/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/units.c: makes units from frames.
 *
 * Overlapping frames become one unit; then each frame's start must be an instruction of it (check.c).  A
 * PLT has a frame as a whole, but its entries are no functions: such frames are skipped, and entries are
 * decoded where they are called.
 */
#include "rimf/analyze/analyser.h"

#include <string.h>

#define PAGE 4096u

/* ---- look-up ------------------------------------------------------------------------ */

const struct code *code_at(const struct analyser *a, uint64_t address)
{
    for (size_t i = 0; i < a->n_code; i++)
        if (address >= a->code[i].start && address < a->code[i].end)
            return &a->code[i];
    return NULL;
}

size_t first_unit_behind(const struct analyser *a, uint64_t address)
{
    const struct code *c = code_at(a, address);
    const struct unit *units = units_of(a);
    size_t low, high;

    if (!c)
        return a->units.n;
    low = c->first_unit[(address - c->start) / PAGE];
    high = c->first_unit[(address - c->start) / PAGE + 1];
    high = high < a->units.n ? high + 1 : high;
    return low + RIMF_BISECT(i, high - low, units[low + i].end <= address);
}

struct unit *unit_at(const struct analyser *a, uint64_t address)
{
    size_t i = first_unit_behind(a, address);

    return i < a->units.n && units_of(a)[i].start <= address ? &units_of(a)[i] : NULL;
}

int is_start(const struct analyser *a, uint64_t address)
{
    const struct code *c = code_at(a, address);
    uint64_t bit = c ? address - c->start : 0;

    return c && c->starts[bit / 64] >> bit % 64 & 1;
}

/* An address behind a lock prefix: the C library jumps over the prefix when there is one thread. */
int enters_middle(const struct analyser *a, uint64_t address, struct unit **unit)
{
    const struct code *c = code_at(a, address);

    if (!c || is_start(a, address))
        return 0;
    *unit = unit_at(a, address);
    if (!*unit)
        return 0;
    return !(address > (*unit)->start && is_start(a, address - 1) &&
             c->bytes[address - 1 - c->start] == 0xf0);
}

const uint8_t *unit_code(const struct analyser *a, const struct unit *u, uint32_t at)
{
    const struct code *c = code_at(a, u->start);

    return c->bytes + (at - c->start);
}

/* ---- operands -------------------------------------------------------------------------- */

int rip_is_idle(const struct instruction *i)
{
    return i->encoding == ENCODING_LEGACY && i->map == 1 &&
           ((i->opcode >= 0x18 && i->opcode <= 0x1f) || i->opcode == 0x0d || i->opcode == 0xb9 ||
            i->opcode == 0xff);
}

/* ---- PLT ----------------------------------------------------------------------------------- *
 *
 * An entry (plt_entry_size) is the target of a call through the PLT, with every linker.  Code for lazy binding, and
 * padding, may follow.  A .plt whose entries nobody calls may precede .plt.sec.  A relocation tells that the slot is in
 * the GOT.
 */
uint32_t plt_slot(const struct analyser *a, uint64_t address)
{
    const struct code *c = code_at(a, address);
    const uint8_t *at = c ? c->bytes + (address - c->start) : NULL;
    size_t size = c ? plt_entry_size(at, c->end - address) : 0;
    uint64_t slot = size ? address + size + (uint64_t)distance_at(at + size - 4) : 0;

    return size && object_is_slot(&a->object, slot) ? (uint32_t)slot : 0;
}

static int belongs_to_plt(const struct instruction *i)
{
    return instruction_is(i, 0, 0x68) ||                               /* push $n */
           instruction_is(i, 0, 0xe9) ||                               /* jmp plt0 */
           (instruction_is(i, 0, 0xff) && i->rip &&                    /* push GOT[1] */
            (modrm_reg(i) == 6 || modrm_reg(i) == 4)) ||               /* jmp *slot */
           (instruction_is(i, 0, 0xbb) && i->rex == 0x41) ||           /* mov $n,%r11d */
           (instruction_is(i, 0, 0x53) && i->rex == 0x41) ||           /* push %r11 */
           (instruction_is(i, 0, 0x00) && i->modrm == 0x00) ||         /* zeros: see is_plt */
           instruction_is(i, 1, 0x1e) || instruction_is_padding(i);    /* endbr64 */
}

/* Whether this is only a PLT.  GNU ld leaves a hole of zeros for the entry of an undefined weak symbol. */
static int is_plt(const struct analyser *a, uint32_t start, uint32_t end)
{
    const struct code *c = code_at(a, start);
    struct instruction i;
    int proof = 0;

    if ((end - start) % 8 != 0)
        return 0;
    for (uint32_t at = start; at < end; at += i.length) {
        const uint8_t *code = c->bytes + (at - c->start);

        if (!decode(code, end - at, &i) || !belongs_to_plt(&i))
            return 0;
        if (instruction_is(&i, 0, 0xff) &&
            (modrm_reg(&i) == 6 || object_is_slot(&a->object, rip_target(code, at, &i))))
            proof = 1;
    }
    return proof;
}

/* ---- making -------------------------------------------------------------------------------- */

static int make_code(struct analyser *a)
{
    const struct object *o = &a->object;

    a->code = calloc(o->n_segments, sizeof *a->code);
    if (!a->code)
        return -1;
    for (size_t i = 0; i < o->n_segments; i++) {
        const struct segment *s = &o->segments[i];
        struct code *c = &a->code[a->n_code];

        if (!(s->flags & PF_X) || s->file_end == s->start)
            continue;
        *c = (struct code){.start = s->start, .end = s->file_end, .bytes = s->bytes};
        c->starts = calloc((c->end - c->start) / 64 + 1, sizeof *c->starts);
        c->entered = calloc((c->end - c->start) / 64 + 1, sizeof *c->entered);
        c->first_unit = calloc((c->end - c->start) / PAGE + 2, sizeof *c->first_unit);
        a->n_code++;
        if (!c->starts || !c->entered || !c->first_unit)
            return -1;
    }
    return 0;
}

static void make_index(struct analyser *a)
{
    const struct unit *units = units_of(a);
    uint32_t unit = 0;

    for (size_t i = 0; i < a->n_code; i++) {
        const struct code *c = &a->code[i];

        for (uint64_t page = 0; page <= (c->end - c->start) / PAGE + 1; page++) {
            while (unit < a->units.n && units[unit].end <= c->start + page * PAGE && units[unit].start < c->end)
                unit++; /* the next segment may begin within this page */
            c->first_unit[page] = unit;
        }
    }
}

int units_make(struct analyser *a)
{
    const struct frame *frames = a->frames.at;

    if (make_code(a))
        return object_fail(&a->object, "there is no memory for its code");
    for (size_t i = 0; i < a->frames.n; i++) {
        const struct frame *f = &frames[i];
        struct unit *last = a->units.n ? &units_of(a)[a->units.n - 1] : NULL;

        if (last && f->start < last->end) {
            if (f->end > last->end && code_at(a, last->start) == code_at(a, f->start))
                last->end = f->end;
            continue;
        }
        /* The frame of a signal handler's return begins a byte early, so that unwinders, which look up the byte
         * before a return address, find it.  It makes no unit. */
        if (!f->signal && !is_plt(a, f->start, f->end))
            VECTOR_ADD(&a->units, struct unit, .start = f->start, .end = f->end);
    }
    if (a->units.failed)
        return object_fail(&a->object, "there is no memory for its functions");
    make_index(a);
    return 0;
}

/* ---- decoding ----------------------------------------------------------------------------------
 *
 * Decodes each unit from its start to its end and marks where
 * instructions begin (rule 1).
 *
 * Behind a byte that is no instruction decoding goes on at the next: what is found
 * there may be wrong, and the unit stays; but its branches may as well be right,
 * and then tell of other units where they are entered.
 */

/* Behind what control does not go on with, NOPs are padding.  A call as the last
 * instruction does not return. */
static int goes_on(const struct instruction *i, int went_on)
{
    return !went_on && instruction_is_padding(i) ? 0 : instruction_flow(i) == FLOW_NEXT ||
                                                           instruction_flow(i) == FLOW_BRANCH;
}

static int called_by(const struct instruction *i)
{
    enum flow flow = instruction_flow(i);

    if (flow == FLOW_CALL_INDIRECT && !instruction_is(i, 0, 0xff))
        return 2; /* syscall, int 80 */
    return flow == FLOW_CALL || flow == FLOW_CALL_INDIRECT;
}

static void mark_start(struct code *c, uint32_t at)
{
    uint32_t bit = at - c->start;

    c->starts[bit / 64] |= 1ull << bit % 64;
}

static void mark_unit(struct code *c, struct unit *u)
{
    struct instruction i;
    int on = 1, called = 0;

    for (uint32_t at = u->start; at < u->end;) {
        const uint8_t *code = c->bytes + (at - c->start);

        if (!decode(code, u->end - at, &i)) {
            unit_stays(u, decode(code, c->end - at, &i) ? ANALYSIS_OVERRUN : ANALYSIS_UNDECODABLE,
                       at);
            at++;
            continue;
        }
        mark_start(c, at);
        if (i.odd)
            unit_stays(u, ANALYSIS_IMPLAUSIBLE, at);
        if (i.rip && i.prefixes & PREFIX_ADDRESS)
            unit_stays(u, ANALYSIS_ADDRESS_SIZE, at);
        if (on || !instruction_is_padding(&i))
            called = called_by(&i);
        on = goes_on(&i, on);
        u->jumps |= instruction_flow(&i) == FLOW_JUMP_INDIRECT;
        at += i.length;
    }
    u->falls = (uint8_t)on;
    u->called = (uint8_t)called;
}

void mark_units(struct analyser *a)
{
    struct unit *units = units_of(a);
    const uint32_t *relocated = a->object.relocated.at;
    size_t unit = 0;

    for (size_t i = 0; i < a->n_code; i++)
        for (; unit < a->units.n && units[unit].start < a->code[i].end; unit++)
            mark_unit(&a->code[i], &units[unit]);
    for (size_t i = 0; i < a->object.relocated.n; i++) {
        struct unit *u = unit_at(a, relocated[i]);

        if (u)
            unit_stays(u, ANALYSIS_RELOCATED, relocated[i]);
    }
}
