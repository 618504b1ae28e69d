/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/mark.c: decodes each unit from its start to its end and marks where
 * instructions begin (rule 1).
 *
 * Behind a byte that is no instruction decoding goes on at the next: what is found
 * there may be wrong, and the unit stays; but its branches may as well be right,
 * and then tell of other units where they are entered.
 */
#include "rimf/analyze/analyser.h"

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
