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
#include "rimf/analyze/values.h"

#include "rimf/x86/registers.h"

#include <string.h>

#define LEADER UINT32_MAX /* control arrives here from elsewhere; not yet reached */
#define SPENT 16u         /* limit of steps for each byte of the object */

struct state {
    uint32_t at;
    uint8_t waits; /* still to be followed */
    struct value registers[16];
};

struct follower {
    struct values now;     /* of the unit, where it is being followed */
    uint32_t *leaders;     /* for each byte: 0, LEADER, or the index of its state plus one */
    uint8_t *seen;         /* for each byte: a followed instruction begins */
    struct vector states;  /* struct state */
    struct vector waiting; /* uint32_t: indices of states */
    const struct vector *places; /* uint32_t, sorted: targets of lea */
    uint64_t *budget;
};

/* ---- where control goes ---------------------------------------------------------------------- */

static struct state *state_of(struct follower *f, uint32_t number)
{
    return (struct state *)f->states.at + number;
}

static uint32_t *leader_at(const struct follower *f, uint64_t address)
{
    return address >= f->now.u->start && address < f->now.u->end ? &f->leaders[address - f->now.u->start] : NULL;
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

        memcpy(new.registers, f->now.of, sizeof new.registers);
        vector_add(&f->states, &new, sizeof new);
        *leader = (uint32_t)f->states.n;
        changed = !f->states.failed;
    } else if (*leader) {
        s = state_of(f, *leader - 1);
        for (unsigned n = 0; n < 16; n++) {
            struct value both = value_join(&s->registers[n], &f->now.of[n]);

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
    uint32_t end = next_taken(f, table);

    for (uint32_t at = table; at < end && !is_spent(f) && entry_leads(f->now.a, table, at); at += 4)
        visit(f, table + (uint64_t)distance_at(object_at(&f->now.a->object, at, 4)));
}

/* jmp *sum */
static void jump(struct follower *f, const struct instruction *i)
{
    const struct value *v = &f->now.of[operand_rm(i)];

    if (!operand_is_register(i) || !value_is_certain(v, HELD_SUM))
        return;
    VECTOR_ADD(&f->now.a->candidates, uint32_t, v->table);
    each_entry(f, v->table, arrive);
}

/* Follows code from a leader to where control leaves or reaches another leader. */
static void follow_way(struct follower *f, uint32_t at)
{
    const uint8_t *code = unit_code(f->now.a, f->now.u, at);
    struct instruction i;

    for (uint32_t first = at; at < f->now.u->end; at += i.length, code += i.length) {
        if (at != first && *leader_at(f, at)) {
            arrive(f, at);
            return;
        }
        if (!decode(code, f->now.u->end - at, &i) || is_spent(f))
            return; /* cannot happen: the unit is decoded */
        f->seen[at - f->now.u->start] = 1;
        if (instruction_flow(&i) == FLOW_JUMP_INDIRECT && operand_is_register(&i))
            jump(f, &i);
        else
            values_step(&f->now, code, at, &i);
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
    if (f->leaders[at - f->now.u->start] == 0)
        f->leaders[at - f->now.u->start] = LEADER;
    memset(f->now.of, 0, sizeof f->now.of);
    arrive(f, at);
    while (f->waiting.n && *f->budget) {
        struct state *s = state_of(f, ((uint32_t *)f->waiting.at)[--f->waiting.n]);

        s->waits = 0;
        memcpy(f->now.of, s->registers, sizeof f->now.of);
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
    const uint8_t *code = unit_code(f->now.a, f->now.u, f->now.u->start);
    struct instruction i;

    for (uint32_t at = f->now.u->start; at < f->now.u->end; at += i.length, code += i.length) {
        if (!decode(code, f->now.u->end - at, &i))
            return;
        if (flow_is_relative(instruction_flow(&i)))
            make_leader(f, branch_target(code, at, &i));
        else if (is_lea(&i) && i.rip && could_be_table(f->now.a, rip_target(code, at, &i)))
            each_entry(f, (uint32_t)rip_target(code, at, &i), make_leader);
    }
}

/* NOPs behind an instruction that does not continue have no effect. */
static void follow_unit(struct follower *f)
{
    const uint8_t *code = unit_code(f->now.a, f->now.u, f->now.u->start);
    struct instruction i;

    make_leaders(f);
    follow_from(f, f->now.u->start);
    for (uint32_t at = f->now.u->start; at < f->now.u->end; at += i.length, code += i.length) {
        if (!decode(code, f->now.u->end - at, &i))
            return;
        if (!f->seen[at - f->now.u->start] && !instruction_is_padding(&i))
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
    struct follower f = {.now = {.a = a, .u = u}, .places = places, .budget = budget};

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
