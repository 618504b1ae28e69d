/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/dispatch.c: finds the units that jump through tables, and the tables that must stay.
 *
 *     lea table(%rip),%rdx;  movslq (%rdx,%rax,4),%rax;  add %rdx,%rax;  jmp *%rax
 *
 * Compilers put other instructions and branches between these.  They move the address out of a loop, or
 * take it twice: once to read the entry, once to add it.  If one of the two were the moved table and the
 * other the original, the sum would be wrong.  So all code that takes a table's address moves together, or
 * none does (tables.c).  A table stays (SPOILED) unless both are proven:
 *
 *   - each address of it in the object is taken by a lea in a movable unit that was followed here;
 *   - wherever the address goes in that unit, it is copied to a register, read an entry by, or added
 *     to such an entry; and the entry is only copied, and added to the address.
 *
 * Anything else may be another use of the same address (an array that ends there), or a table computed from
 * this one: stored, compared, exchanged, one of several that a branch or cmov chose.
 *
 * Each such unit is interpreted from its start along its branches and tables, with the contents of each
 * register.  Where paths join, a register may have several contents.  Code that is not reached like this
 * (landing pads, labels) is interpreted with nothing known.
 *
 * There are two assumptions.  If a register still holds an address when control leaves the unit, by a call,
 * a return or a jump, it is dead; any further use would be of the moved table only, since no other address
 * of it exists there.  And an entry that points to an instruction of a unit distinguishes a table from an
 * array (tables.c).
 */
#include "rimf/analyze/analyser.h"

#include "rimf/x86/registers.h"

#include <string.h>

#define LEADER UINT32_MAX /* control arrives here from elsewhere; not yet reached */
#define SPENT 16u         /* limit of steps for each byte of the object */

enum held {
    HELD_OTHER,
    HELD_ADDRESS, /* of a table */
    HELD_PARTLY,  /* the same, with one byte overwritten */
    HELD_ENTRY,   /* of that table */
    HELD_SUM,     /* the sum of both: the jump target */
    HELD_MANY     /* one of several of these, or of several tables */
};

struct value {
    uint64_t tables; /* table_bit of each possible table */
    uint32_t table;  /* 0 for HELD_MANY */
    uint8_t held, perhaps; /* perhaps: or anything else */
    uint16_t zero;         /* states are compared by their bytes */
};

struct state {
    uint32_t at;
    uint8_t waits; /* still to be followed */
    struct value registers[16];
};

struct follower {
    struct analyser *a;
    struct unit *u;
    uint32_t *leaders;     /* for each byte: 0, LEADER, or the index of its state plus one */
    uint8_t *seen;         /* for each byte: a followed instruction begins */
    struct vector states;  /* struct state */
    struct vector waiting; /* uint32_t: numbers of states */
    struct value now[16];
    const struct vector *places; /* uint32_t, sorted: targets of lea */
    uint64_t *budget;
};

/* ---- what a register holds --------------------------------------------------------------- */

static struct value value_of(uint32_t table, enum held held)
{
    return (struct value){.tables = table_bit(table), .table = table, .held = (uint8_t)held};
}

static void spoil(struct follower *f, const struct value *v)
{
    if (v->held == HELD_MANY)
        f->u->spoils |= v->tables;
    else if (v->held != HELD_OTHER && v->held != HELD_SUM)
        VECTOR_ADD(&f->a->spoiled, uint32_t, v->table);
}

static struct value join_values(const struct value *x, const struct value *y)
{
    struct value both = x->held ? *x : *y;

    both.perhaps = x->perhaps || y->perhaps || x->held != y->held;
    if (x->held && y->held && (x->held != y->held || x->table != y->table))
        both = (struct value){.held = HELD_MANY, .perhaps = 1, .tables = x->tables | y->tables};
    return both;
}

static int is_certain(const struct value *v, enum held held)
{
    return v->held == held && !v->perhaps;
}

/* The effect on registers of any instruction that is none of the steps below. */
static void use_registers(struct follower *f, const uint8_t *code, const struct instruction *i)
{
    struct registers r = registers_of(code, i);

    for (unsigned n = 0; n < 16; n++) {
        struct value *v = &f->now[n];
        int read = r.read >> n & 1 || (r.bytes_read >> n & 1 && v->held != HELD_PARTLY);

        if (read)
            spoil(f, v);
        if (read || r.written >> n & 1 || (r.bytes_written >> n & 1 && v->held == HELD_SUM))
            *v = (struct value){0};
        else if (r.bytes_written >> n & 1 && v->held && v->held != HELD_MANY)
            v->held = HELD_PARTLY;
    }
}

/* ---- steps ---------------------------------------------------------------------------------- */

static int could_be_table(const struct analyser *a, uint64_t target)
{
    const struct segment *s = object_segment(&a->object, target);

    return s && !(s->flags & PF_W) && target % 4 == 0 && !unit_at(a, target);
}

static int takes_address(struct follower *f, const uint8_t *code, uint32_t at,
                         const struct instruction *i)
{
    uint32_t target = (uint32_t)rip_target(code, at, i);
    struct value v = value_of(target, HELD_ADDRESS);

    if (!is_lea(i) || !i->rip || !could_be_table(f->a, rip_target(code, at, i)))
        return 0;
    if (!(i->rex & 8)) {
        spoil(f, &v);
        v = (struct value){0};
    }
    f->now[operand_reg(i)] = v;
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

static int is_read_of_entry(const uint8_t *code, const struct instruction *i, unsigned *base,
                            unsigned *index)
{
    return instruction_is(i, 0, 0x63) && i->rex & 8 && is_pair(code, i, 2, base, index);
}

/* movslq (base,index,4),entry */
static int reads_entry(struct follower *f, const uint8_t *code, const struct instruction *i)
{
    unsigned base, index;
    struct value v;

    if (!is_read_of_entry(code, i, &base, &index) || !is_certain(&f->now[base], HELD_ADDRESS))
        return 0;
    v = value_of(f->now[base].table, HELD_ENTRY);
    spoil(f, &f->now[index]);
    f->now[operand_reg(i)] = v;
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

static int adds_entry(struct follower *f, const uint8_t *code, const struct instruction *i)
{
    unsigned x, y, sum = sum_of(code, i, &x, &y);
    const struct value *one, *other;

    if (sum == 16)
        return 0;
    one = &f->now[x];
    other = &f->now[y];
    if (one->table != other->table ||
        !((is_certain(one, HELD_ADDRESS) && is_certain(other, HELD_ENTRY)) ||
          (is_certain(one, HELD_ENTRY) && is_certain(other, HELD_ADDRESS))))
        return 0;
    f->now[sum] = value_of(one->table, HELD_SUM);
    return 1;
}

static int copies(struct follower *f, const struct instruction *i)
{
    if (!(i->rex & 8) || !operand_is_register(i))
        return 0;
    if (instruction_is(i, 0, 0x89))
        f->now[operand_rm(i)] = f->now[operand_reg(i)];
    else if (instruction_is(i, 0, 0x8b))
        f->now[operand_reg(i)] = f->now[operand_rm(i)];
    else
        return 0;
    return 1;
}

/* Registers that are not results and not preserved by the callee are unknown afterwards: if compilers know
 * the callee, they may also be unchanged. */
static void return_from_call(struct follower *f)
{
    static const uint8_t lost[] = {RCX, RSI, RDI, 8, 9, 10, 11};

    f->now[RAX] = f->now[RDX] = (struct value){0};
    for (size_t k = 0; k < sizeof lost; k++)
        f->now[lost[k]].perhaps = 1;
}

static void follow_step(struct follower *f, const uint8_t *code, uint32_t at,
                        const struct instruction *i)
{
    enum flow flow = instruction_flow(i);

    if (!takes_address(f, code, at, i) && !reads_entry(f, code, i) && !adds_entry(f, code, i) &&
        !copies(f, i))
        use_registers(f, code, i);
    spoil(f, &f->now[RSP]);
    f->now[RSP] = (struct value){0};
    if (flow == FLOW_CALL || flow == FLOW_CALL_INDIRECT)
        return_from_call(f);
}

/* ---- where control goes ---------------------------------------------------------------------- */

static struct state *state_of(struct follower *f, uint32_t number)
{
    return (struct state *)f->states.at + number;
}

static uint32_t *leader_at(const struct follower *f, uint64_t address)
{
    return address >= f->u->start && address < f->u->end ? &f->leaders[address - f->u->start] : NULL;
}

/* Control arrives at a leader with the present contents of registers. */
static void arrive(struct follower *f, uint64_t address)
{
    uint32_t *leader = leader_at(f, address);
    struct state *s;
    int changed = 0;

    if (!leader)
        return; /* another unit */
    if (*leader == LEADER) {
        struct state new = {.at = (uint32_t)address};

        memcpy(new.registers, f->now, sizeof new.registers);
        vector_add(&f->states, &new, sizeof new);
        *leader = (uint32_t)f->states.n;
        changed = !f->states.failed;
    } else if (*leader) {
        s = state_of(f, *leader - 1);
        for (unsigned n = 0; n < 16; n++) {
            struct value both = join_values(&s->registers[n], &f->now[n]);

            changed |= memcmp(&both, &s->registers[n], sizeof both) != 0;
            s->registers[n] = both;
        }
    }
    if (!changed || state_of(f, *leader - 1)->waits)
        return;
    state_of(f, *leader - 1)->waits = 1;
    VECTOR_ADD(&f->waiting, uint32_t, *leader - 1);
}

static int is_spent(struct follower *f)
{
    if (*f->budget)
        --*f->budget;
    return !*f->budget;
}

/* The next address that is taken. */
static uint32_t next_taken(const struct follower *f, uint32_t table)
{
    const uint32_t *places = f->places->at;
    size_t next = RIMF_BISECT(i, f->places->n, places[i] <= table);

    return next < f->places->n ? places[next] : UINT32_MAX;
}

/* Calls `visit` with each address in the unit that is the target of an entry. */
static void each_entry(struct follower *f, uint32_t table, void (*visit)(struct follower *, uint64_t))
{
    struct unit *seen = NULL;
    uint32_t end = next_taken(f, table);

    for (uint32_t at = table; at < end && !is_spent(f) && entry_leads(f->a, table, at, &seen); at += 4)
        visit(f, table + (uint64_t)distance_at(object_at(&f->a->object, at, 4)));
}

/* jmp *sum */
static void jump(struct follower *f, const struct instruction *i)
{
    const struct value *v = &f->now[operand_rm(i)];

    if (!operand_is_register(i) || !is_certain(v, HELD_SUM))
        return;
    VECTOR_ADD(&f->a->candidates, uint32_t, v->table);
    each_entry(f, v->table, arrive);
}

/* Follows code from a leader to where control leaves or reaches another leader. */
static void follow_way(struct follower *f, uint32_t at)
{
    const uint8_t *code = unit_code(f->a, f->u, at);
    struct instruction i;

    for (uint32_t first = at; at < f->u->end; at += i.length, code += i.length) {
        if (at != first && *leader_at(f, at)) {
            arrive(f, at);
            return;
        }
        if (!decode(code, f->u->end - at, &i) || is_spent(f))
            return; /* cannot happen: the unit is decoded */
        f->seen[at - f->u->start] = 1;
        if (instruction_flow(&i) == FLOW_JUMP_INDIRECT && operand_is_register(&i))
            jump(f, &i);
        else
            follow_step(f, code, at, &i);
        if (instruction_flow(&i) == FLOW_BRANCH || instruction_flow(&i) == FLOW_JUMP)
            arrive(f, branch_target(code, at, &i));
        if (instruction_flow(&i) == FLOW_JUMP || instruction_flow(&i) == FLOW_JUMP_INDIRECT ||
            instruction_flow(&i) == FLOW_END)
            return;
    }
}

/* With nothing known. */
static void follow_from(struct follower *f, uint32_t at)
{
    if (f->leaders[at - f->u->start] == 0)
        f->leaders[at - f->u->start] = LEADER;
    memset(f->now, 0, sizeof f->now);
    arrive(f, at);
    while (f->waiting.n && *f->budget) {
        struct state *s = state_of(f, ((uint32_t *)f->waiting.at)[--f->waiting.n]);

        s->waits = 0;
        memcpy(f->now, s->registers, sizeof f->now);
        follow_way(f, s->at);
    }
}

/* ---- units --------------------------------------------------------------------------------------- */

static void make_leader(struct follower *f, uint64_t address)
{
    uint32_t *leader = leader_at(f, address);

    if (leader)
        *leader = LEADER;
}

static void make_leaders(struct follower *f)
{
    const uint8_t *code = unit_code(f->a, f->u, f->u->start);
    struct instruction i;

    for (uint32_t at = f->u->start; at < f->u->end; at += i.length, code += i.length) {
        if (!decode(code, f->u->end - at, &i))
            return;
        if (flow_is_relative(instruction_flow(&i)))
            make_leader(f, branch_target(code, at, &i));
        else if (is_lea(&i) && i.rip && could_be_table(f->a, rip_target(code, at, &i)))
            each_entry(f, (uint32_t)rip_target(code, at, &i), make_leader);
    }
}

/* NOPs behind an instruction that does not continue have no effect. */
static void follow_unit(struct follower *f)
{
    const uint8_t *code = unit_code(f->a, f->u, f->u->start);
    struct instruction i;

    make_leaders(f);
    follow_from(f, f->u->start);
    for (uint32_t at = f->u->start; at < f->u->end; at += i.length, code += i.length) {
        if (!decode(code, f->u->end - at, &i))
            return;
        if (!f->seen[at - f->u->start] && !instruction_is_padding(&i))
            follow_from(f, at);
    }
}

static int may_dispatch(const struct analyser *a, const struct unit *u)
{
    const uint8_t *code = unit_code(a, u, u->start);
    struct instruction i;
    unsigned base, index;

    if (!u->jumps || !unit_is_decoded(u))
        return 0;
    for (uint32_t at = u->start; at < u->end; at += i.length, code += i.length) {
        if (!decode(code, u->end - at, &i))
            return 0;
        if (is_read_of_entry(code, &i, &base, &index))
            return 1;
    }
    return 0;
}

static void follow(struct analyser *a, struct unit *u, const struct vector *places, uint64_t *budget)
{
    struct follower f = {.a = a, .u = u, .places = places, .budget = budget};

    f.leaders = calloc(u->end - u->start, sizeof *f.leaders);
    f.seen = calloc(u->end - u->start, 1);
    if (f.leaders && f.seen)
        follow_unit(&f);
    if (!f.leaders || !f.seen || f.states.failed || f.waiting.failed)
        a->spoiled.failed = 1;
    u->dispatches = *budget != 0;
    free(f.leaders);
    free(f.seen);
    vector_free(&f.states);
    vector_free(&f.waiting);
}

void follow_dispatches(struct analyser *a)
{
    uint64_t budget = SPENT * (uint64_t)a->object.size;
    const struct taken *taken = a->taken.at;
    struct vector places = {0};

    for (size_t i = 0; i < a->taken.n; i++)
        VECTOR_ADD(&places, uint32_t, taken[i].target);
    sort_addresses(&places);
    for (size_t i = 0; i < a->units.n && budget; i++)
        if (may_dispatch(a, &units_of(a)[i]))
            follow(a, &units_of(a)[i], &places, &budget);
    a->spoiled.failed |= places.failed;
    vector_free(&places);
}
