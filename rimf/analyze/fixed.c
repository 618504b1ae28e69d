/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/fixed.c: code whose canonical address is the original (analysis/analysis.h, FIXED_CODE).
 *
 * A process that gives functions other canonical addresses corrects relocated words, and lea in movable
 * code.  Other code may take addresses, too:
 *
 * - lea in a unit that stays, and whatever could be one in code that is not understood
 *   (reach.c believes each byte).  The unit that it leads to keeps its address.
 * - Code of the large model adds constants to its own address, or to that of the GOT.  If any
 *   code computes in this way, all of the object keeps its addresses.
 * - Who asks for the segments of all objects may look for its own functions there, and moved code
 *   lies in another object's (object.c).  Functions that only vtables hold are not
 *   asked for (tabled.c).
 *
 * Code that does not move keeps its address.  Padding between functions does not: a symbol there marks the
 * end of the preceding function.
 */
#include "rimf/analyze/analyser.h"

static void keep_taken(struct analyser *a)
{
    const struct taken *taken = a->taken.at;
    struct unit *units = units_of(a);

    for (size_t i = 0; i < a->taken.n; i++) {
        struct unit *to = unit_at(a, taken[i].target);

        if (to && (taken[i].unit == UINT32_MAX || units[taken[i].unit].reason))
            to->kept = 1;
    }
}

static void add(struct analyser *a, uint32_t start, uint32_t end)
{
    struct analysis_fixed *last =
        a->fixed.n ? (struct analysis_fixed *)a->fixed.at + a->fixed.n - 1 : NULL;

    if (last && last->start + last->size == start)
        last->size += end - start;
    else
        VECTOR_ADD(&a->fixed, struct analysis_fixed, start, end - start);
}

static void emit_segment(struct analyser *a, const struct code *c)
{
    const struct unit *units = units_of(a);
    uint32_t at = c->start;

    for (size_t i = c->first_unit[0]; i < a->units.n && units[i].start < c->end; i++) {
        if (at < units[i].start && !is_padding(c, at, units[i].start))
            add(a, at, units[i].start);
        at = units[i].end;
        if (units[i].reason || units[i].kept)
            add(a, units[i].start, at);
    }
    if (at < c->end && !is_padding(c, at, c->end))
        add(a, at, c->end);
}

void emit_fixed(struct analyser *a)
{
    if (a->object.locates)
        keep_untabled(a);
    keep_taken(a);
    for (size_t i = 0; i < a->n_code; i++) {
        if (a->object.flags || a->based)
            add(a, a->code[i].start, a->code[i].end);
        else
            emit_segment(a, &a->code[i]);
    }
}
