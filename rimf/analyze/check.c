/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/check.c: rules 2 to 6.  The target of every branch, pointer, symbol and landing pad is the
 * start of an instruction; code is not read as data; nothing computes with addresses inside functions;
 * operands are inside the object.
 *
 * Branches of units that stay count as much as those of others.
 */
#include "rimf/analyze/analyser.h"

#include <string.h>

#define SLACK 4096u /* compilers fold constants into addresses of arrays */

/* A unit's uses of its own address. */
struct own {
    int taken; /* it takes the address of its start */
    int constants; /* it has 64-bit immediates */
};

static void check_entered(struct analyser *a, uint64_t target, enum analysis_reason reason,
                          uint64_t from)
{
    struct unit *u;

    note_entered(a, target);
    if (enters_middle(a, target, &u))
        unit_stays(u, reason, from);
}

static void computes(struct analyser *a, struct unit *u, uint32_t at)
{
    unit_stays(u, ANALYSIS_BASE, at);
    a->based = 1;
}

/* call 1f; …; 1: pop, or mov (%rsp): the return address as data. */
static int takes_return(const struct analyser *a, const struct unit *u, uint64_t target)
{
    const uint8_t *code = unit_code(a, u, (uint32_t)target);
    struct instruction i;

    return decode(code, u->end - target, &i) && i.encoding == ENCODING_LEGACY && i.map == 0 &&
           ((i.opcode & 0xf8) == 0x58 ||
            (i.opcode == 0x8b && (i.modrm & 0xc7) == 0x04 && code[i.displacement_at - 1] == 0x24));
}

static void check_branch(struct analyser *a, uint32_t number, uint32_t at,
                         const struct instruction *i, uint64_t target)
{
    struct unit *u = &units_of(a)[number], *to;

    check_entered(a, target, ANALYSIS_ENTERED, at);
    if (instruction_flow(i) == FLOW_CALL && target > u->start && target < u->end &&
        (target == at + i->length || takes_return(a, u, target)))
        computes(a, u, at);
    if (i->immediate_size != 1 || (target >= u->start && target < u->end))
        return;
    to = unit_at(a, target);
    if (to)
        VECTOR_ADD(&a->edges, struct edge, number, (uint32_t)(to - units_of(a)), at,
                   ANALYSIS_SHORT_BRANCH);
    else
        VECTOR_ADD(&a->edges, struct edge, number, UINT32_MAX, at, ANALYSIS_SHORT_BRANCH);
}

/* lea of an address inside a function: a label, with which distances may be computed, or a table in the
 * code.  A function's start is a pointer to it. */
static void check_lea(struct analyser *a, struct unit *u, uint32_t at, uint64_t target,
                      struct own *own)
{
    struct unit *to = unit_at(a, target);

    VECTOR_ADD(&a->taken, struct taken, (uint32_t)target, (uint32_t)(u - units_of(a)),
               to && target != to->start);
    if (target == at)
        computes(a, u, at);
    if (!to)
        return;
    if (target == u->start)
        own->taken = 1;
    check_entered(a, target, ANALYSIS_POINTED, at);
    if (target == to->start) {
        to->reached = 1;
        return;
    }
    unit_stays(to, ANALYSIS_LABEL_TAKEN, at);
    unit_stays(u, ANALYSIS_TAKES_LABEL, at);
}

static void check_operand(struct analyser *a, struct unit *u, uint32_t at,
                          const struct instruction *i, uint64_t target, struct own *own)
{
    struct unit *to;

    if (target + SLACK < a->object.low || target > a->object.high + SLACK) {
        unit_stays(u, ANALYSIS_OUTSIDE, at);
    } else if (is_lea(i)) {
        check_lea(a, u, at, target, own);
    } else {
        to = unit_at(a, target);
        if (to)
            unit_stays(to, ANALYSIS_READ, at);
        else if (a->object.locates)
            VECTOR_ADD(&a->read, uint32_t, (uint32_t)target);
    }
}

static int is_constant(const struct instruction *i)
{
    return i->encoding == ENCODING_LEGACY && i->map == 0 && (i->opcode & 0xf8) == 0xb8 &&
           i->immediate_size == 8;
}

/* The large code model adds a 64-bit constant to an address in the code.  If a function takes its own
 * address, none of its constants may be a distance into the object. */
static void check_constants(struct analyser *a, struct unit *u)
{
    const uint8_t *code = unit_code(a, u, u->start);
    struct instruction i;
    uint64_t constant;

    for (uint32_t at = u->start; at < u->end; at += i.length, code += i.length) {
        if (!decode(code, u->end - at, &i))
            return; /* it stays for this reason */
        if (!is_constant(&i))
            continue;
        memcpy(&constant, code + i.immediate_at, sizeof constant);
        constant += u->start;
        if (constant && constant < a->object.high)
            computes(a, u, at);
    }
}

static void check_unit(struct analyser *a, uint32_t number)
{
    struct unit *u = &units_of(a)[number];
    const uint8_t *code = unit_code(a, u, u->start);
    struct instruction i;
    struct own own = {0, 0};

    for (uint32_t at = u->start; at < u->end; at += i.length, code += i.length) {
        if (!decode(code, u->end - at, &i)) {
            i.length = 1;
            continue;
        }
        if (flow_is_relative(instruction_flow(&i)))
            check_branch(a, number, at, &i, branch_target(code, at, &i));
        else if (i.rip && !rip_is_idle(&i))
            check_operand(a, u, at, &i, rip_target(code, at, &i), &own);
        own.constants |= is_constant(&i);
    }
    if (own.taken && own.constants)
        check_constants(a, u);
}

/* ---- from outside the code ---------------------------------------------------------- */

struct pads {
    struct analyser *a;
    struct unit *u;
};

static void check_pad(void *cookie, uint64_t pad)
{
    const struct pads *p = cookie;
    const struct unit *to = unit_at(p->a, pad);

    check_entered(p->a, pad, ANALYSIS_POINTED, p->u->start);
    if (to && to != p->u) /* a distance from the start of the function, which is not stored */
        VECTOR_ADD(&p->a->edges, struct edge, (uint32_t)(p->u - units_of(p->a)),
                   (uint32_t)(to - units_of(p->a)), p->u->start, ANALYSIS_SHORT_BRANCH);
}

static void check_frames(struct analyser *a)
{
    const struct frame *frames = a->frames.at;
    uint64_t budget = 4 * (uint64_t)a->object.size;

    for (size_t i = 0; i < a->frames.n; i++) {
        const struct frame *f = &frames[i];
        struct unit *u = unit_at(a, f->end - 1);

        if (!u) /* a PLT */
            continue;
        if (f->start >= u->start)
            check_entered(a, f->start, ANALYSIS_POINTED, f->start);
        if (f->unread || (f->lsda && frame_landing_pads(&a->object, f, &budget, check_pad,
                                                        &(struct pads){a, u})))
            unit_stays(u, ANALYSIS_POINTED, f->start);
    }
}

void check_units(struct analyser *a)
{
    const struct pointer *pointers = a->object.pointers.at, *data = a->object.data.at;

    for (size_t i = 0; i < a->object.pointers.n; i++)
        check_entered(a, pointers[i].target, ANALYSIS_POINTED, pointers[i].from);
    for (size_t i = 0; i < a->object.data.n; i++) {
        struct unit *u = unit_at(a, data[i].target);

        if (u)
            unit_stays(u, ANALYSIS_READ, data[i].from);
    }
    check_frames(a);
    for (uint32_t i = 0; i < a->units.n; i++)
        check_unit(a, i);
}
