/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/values.c: the effect of one instruction on registers with tables' addresses.
 *
 * An address is taken by lea, copied, used to read an entry, and added to such an entry.  Any other use of it
 * or of an entry may be another use of the table, which is then spoiled.
 */
#include "rimf/analyze/values.h"

#include "rimf/x86/registers.h"

/* ---- what a register holds --------------------------------------------------------------- */

static struct value value_of(uint32_t table, enum held held)
{
    return (struct value){.tables = table_bit(table), .table = table, .held = (uint8_t)held};
}

static void spoil(struct values *r, const struct value *v)
{
    if (v->held == HELD_MANY)
        r->u->spoils |= v->tables;
    else if (v->held != HELD_OTHER && v->held != HELD_SUM)
        VECTOR_ADD(&r->a->spoiled, uint32_t, v->table);
}

struct value value_join(const struct value *x, const struct value *y)
{
    struct value both = x->held ? *x : *y;

    both.perhaps = x->perhaps || y->perhaps || x->held != y->held;
    if (x->held && y->held && (x->held != y->held || x->table != y->table))
        both = (struct value){.held = HELD_MANY, .perhaps = 1, .tables = x->tables | y->tables};
    return both;
}

int value_is_certain(const struct value *v, enum held held)
{
    return v->held == held && !v->perhaps;
}

/* The effect on registers of any instruction that is none of the steps below. */
static void use_registers(struct values *r, const uint8_t *code, const struct instruction *i)
{
    struct registers used = registers_of(code, i);

    for (unsigned n = 0; n < 16; n++) {
        struct value *v = &r->of[n];
        int read = used.read >> n & 1 || (used.bytes_read >> n & 1 && v->held != HELD_PARTLY);

        if (read)
            spoil(r, v);
        if (read || used.written >> n & 1 || (used.bytes_written >> n & 1 && v->held == HELD_SUM))
            *v = (struct value){0};
        else if (used.bytes_written >> n & 1 && v->held && v->held != HELD_MANY)
            v->held = HELD_PARTLY;
    }
}

/* ---- steps ---------------------------------------------------------------------------------- */

int could_be_table(const struct analyser *a, uint64_t target)
{
    const struct segment *s = object_segment(&a->object, target);

    return s && !(s->flags & PF_W) && target % 4 == 0 && !unit_at(a, target);
}

static int takes_address(struct values *r, const uint8_t *code, uint32_t at, const struct instruction *i)
{
    uint32_t target = (uint32_t)rip_target(code, at, i);
    struct value v = value_of(target, HELD_ADDRESS);

    if (!is_lea(i) || !i->rip || !could_be_table(r->a, rip_target(code, at, i)))
        return 0;
    if (!(i->rex & 8)) {
        spoil(r, &v);
        v = (struct value){0};
    }
    r->of[operand_reg(i)] = v;
    return 1;
}

/* (base,index): the numbers of both registers.  1, or 0: another operand. */
static int is_pair(const uint8_t *code, const struct instruction *i, unsigned scale, unsigned *base,
                   unsigned *index)
{
    uint8_t sib = code[i->displacement_at - 1]; /* if any */

    if ((i->modrm & 7) != 4 || i->modrm >= 0x80 || sib >> 6 != scale ||
        i->prefixes & (PREFIX_ADDRESS | PREFIX_SEGMENT))
        return 0;
    if (i->modrm >= 0x40 ? code[i->displacement_at] != 0 : (sib & 7) == 5)
        return 0;
    *base = (sib & 7u) | (i->rex & 1u) << 3;
    *index = (sib >> 3 & 7u) | (i->rex & 2u) << 2;
    return *index != RSP;
}

int is_read_of_entry(const uint8_t *code, const struct instruction *i, unsigned *base, unsigned *index)
{
    return instruction_is(i, 0, 0x63) && i->rex & 8 && is_pair(code, i, 2, base, index);
}

/* movslq (base,index,4),entry */
static int reads_entry(struct values *r, const uint8_t *code, const struct instruction *i)
{
    unsigned base, index;
    struct value v;

    if (!is_read_of_entry(code, i, &base, &index) || !value_is_certain(&r->of[base], HELD_ADDRESS))
        return 0;
    v = value_of(r->of[base].table, HELD_ENTRY);
    spoil(r, &r->of[index]);
    r->of[operand_reg(i)] = v;
    return 1;
}

/* add x,y; lea (x,y),z: the number of the register that gets the sum of x and y, or 16. */
static unsigned sum_of(const uint8_t *code, const struct instruction *i, unsigned *x, unsigned *y)
{
    if (!(i->rex & 8))
        return 16;
    *x = operand_reg(i);
    *y = operand_rm(i);
    if (operand_is_register(i) && (instruction_is(i, 0, 0x01) || instruction_is(i, 0, 0x03)))
        return i->opcode == 0x01 ? *y : *x;
    return is_lea(i) && is_pair(code, i, 0, x, y) ? operand_reg(i) : 16;
}

static int adds_entry(struct values *r, const uint8_t *code, const struct instruction *i)
{
    unsigned x, y, sum = sum_of(code, i, &x, &y);
    const struct value *one, *other;

    if (sum == 16)
        return 0;
    one = &r->of[x];
    other = &r->of[y];
    if (one->table != other->table ||
        !((value_is_certain(one, HELD_ADDRESS) && value_is_certain(other, HELD_ENTRY)) ||
          (value_is_certain(one, HELD_ENTRY) && value_is_certain(other, HELD_ADDRESS))))
        return 0;
    r->of[sum] = value_of(one->table, HELD_SUM);
    return 1;
}

static int copies(struct values *r, const struct instruction *i)
{
    if (!(i->rex & 8) || !operand_is_register(i))
        return 0;
    if (instruction_is(i, 0, 0x89))
        r->of[operand_rm(i)] = r->of[operand_reg(i)];
    else if (instruction_is(i, 0, 0x8b))
        r->of[operand_reg(i)] = r->of[operand_rm(i)];
    else
        return 0;
    return 1;
}

/* Registers that are not results and not preserved by the callee are unknown afterwards: if compilers know
 * the callee, they may also be unchanged. */
static void return_from_call(struct values *r)
{
    static const uint8_t lost[] = {RCX, RSI, RDI, 8, 9, 10, 11};

    r->of[RAX] = r->of[RDX] = (struct value){0};
    for (size_t k = 0; k < sizeof lost; k++)
        r->of[lost[k]].perhaps = 1;
}

void values_step(struct values *r, const uint8_t *code, uint32_t at, const struct instruction *i)
{
    enum flow flow = instruction_flow(i);

    if (!takes_address(r, code, at, i) && !reads_entry(r, code, i) && !adds_entry(r, code, i) &&
        !copies(r, i))
        use_registers(r, code, i);
    spoil(r, &r->of[RSP]);
    r->of[RSP] = (struct value){0};
    if (flow == FLOW_CALL || flow == FLOW_CALL_INDIRECT)
        return_from_call(r);
}
