/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/decide.c: rule 7, to the fixed point.
 *
 * A unit that runs off its end into the next one, or that branches to another one with one byte, can move
 * only together with it: nothing else fits between them.  So each unit that stays keeps its dependents, and
 * these keep theirs.  Edges are sorted by target, and each is followed once.
 *
 * Units with such an edge that may move are JOINED: they move together, with everything between them.
 */
#include "rimf/analyze/analyser.h"

static int by_to(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;

    return x->to < y->to ? -1 : x->to > y->to;
}

/* NOPs between functions are executed, too. */
static uint32_t behind_padding(const struct analyser *a, const struct unit *u)
{
    const struct code *c = code_at(a, u->start);
    struct instruction i;
    uint32_t at = u->end;

    while (at < c->end && !unit_at(a, at) && decode(c->bytes + (at - c->start), c->end - at, &i) &&
           instruction_is_padding(&i) && i.opcode != 0xcc)
        at += i.length;
    return at;
}

static void add_falls(struct analyser *a)
{
    struct unit *units = units_of(a);

    for (uint32_t i = 0; i < a->units.n; i++) {
        uint32_t next;

        if (units[i].reason || !units[i].falls)
            continue;
        next = behind_padding(a, &units[i]);
        if (i + 1 < a->units.n && units[i + 1].start == next)
            VECTOR_ADD(&a->edges, struct edge, i, i + 1, units[i].end, ANALYSIS_FALLS);
        else
            VECTOR_ADD(&a->edges, struct edge, i, UINT32_MAX, units[i].end, ANALYSIS_FALLS);
    }
}

/* All units with an edge to `to` stay; new ones are pushed onto the stack. */
static void hold(struct analyser *a, uint32_t to, struct vector *stack)
{
    const struct edge *edges = a->edges.at;

    for (size_t i = RIMF_BISECT(k, a->edges.n, edges[k].to < to); i < a->edges.n && edges[i].to == to; i++) {
        struct unit *u = &units_of(a)[edges[i].from];

        if (u->reason)
            continue;
        unit_stays(u, edges[i].reason, edges[i].where);
        VECTOR_ADD(stack, uint32_t, edges[i].from);
    }
}

/* A call as the last instruction is assumed not to return, as compilers emit it.  In functions that were
 * divided by hand it may return; then the continuation follows directly. */
static void join_calls(struct analyser *a)
{
    struct unit *units = units_of(a);

    for (size_t i = 0; i + 1 < a->units.n; i++)
        if (!units[i].reason && !units[i + 1].reason && units[i].called &&
            units[i + 1].start == (units[i].called > 1 ? behind_padding(a, &units[i])
                                                       : units[i].end))
            units[i].joined = 1;
}

static void join(struct analyser *a)
{
    const struct edge *edges = a->edges.at;
    struct unit *units = units_of(a);

    join_calls(a);
    for (size_t i = 0; i < a->edges.n; i++) {
        uint32_t from = edges[i].from, to = edges[i].to;

        if (to == UINT32_MAX || units[from].reason || units[to].reason)
            continue;
        for (uint32_t u = from < to ? from : to; u < (from < to ? to : from); u++)
            units[u].joined = 1;
    }
}

void decide_units(struct analyser *a)
{
    struct vector stack = {0};

    add_falls(a);
    if (a->edges.n)
        qsort(a->edges.at, a->edges.n, sizeof(struct edge), by_to);
    hold(a, UINT32_MAX, &stack); /* into code outside units */
    for (uint32_t i = 0; i < a->units.n; i++) {
        if (units_of(a)[i].reason)
            hold(a, i, &stack);
        while (stack.n)
            hold(a, ((uint32_t *)stack.at)[--stack.n], &stack);
    }
    a->edges.failed |= stack.failed;
    vector_free(&stack);
    join(a);
}
