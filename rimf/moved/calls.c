/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/calls.c: the targets of moved code's calls that go, or went, through slots (moved/moved.h).
 *
 * The wanted targets are written here, as in code that does not move (emit/calls.h).  A call is bound to the
 * moved code of the function, if any; an unedited call keeps its target.
 */
#include "rimf/moved/moved.h"

#include "rimf/base/base.h"
#include "rimf/emit/calls.h"
#include "rimf/x86/decode.h"

#include <errno.h> /* numbers only */

#define AHEAD 8u /* code that just moved is in distant caches */

/* The target in moved code. */
static uintptr_t lead(const struct emit_calls *e, uintptr_t target)
{
    return rimf_moved_or(e->image, target);
}

/* A call through a slot reads it at its address. */
static int lead_on(struct moving *c, uint8_t *at, const struct site *site)
{
    uintptr_t next = (uintptr_t)at + site->length;

    return moving_target(c, at + site->length - 4, next, site->to_slot ? site->target
                                                                       : rimf_moved_or(c->image, site->target));
}

/* `moves`: the unit that contains the call does, if its fragment does. */
static int move_call(struct moving *c, struct emit_calls *e, const struct analysis_call *listed, int moves)
{
    uint8_t *at = moves ? moving_byte(c, listed->address) : NULL;
    struct way none = {.target = 0}, *way = e->ways ? way_of(e, listed) : &none;
    struct site site;
    const char *why;

    if (!at) { /* it is counted where it stays */
        way->calls--;
        return 0;
    }
    why = emit_call(e, listed, (uintptr_t)at, c->distance, SITE_MAX, way->target, &site);
    if (!site.length)
        return moving_refuse(c, "a call is not what the analysis says, nor what a pass made of it");
    if (why && way->target)
        emit_miss(e, way, why);
    if (why || !way->target)
        return lead_on(c, at, &site);
    memcpy(at, &site.made, 4); /* five bytes, or six */
    memcpy(at + site.length - 4, (const uint8_t *)&site.made + site.length - 4, 4);
    return 0;
}

/* Calls of units that stay are listed, too; within a fragment these have traps. */
int move_calls(struct moving *c)
{
    const struct analysis *s = c->analysis;
    struct emit_calls e = {.image = c->image, .object = c->object, .calls = s->calls, .n_calls = s->n_calls,
                           .lead = lead};
    int error = emit_calls_open(&e, 1, &c->why);
    size_t unit = 0;

    if (error == -ENOMEM)
        return error;
    error = 0;
    for (size_t i = 0; i < s->n_calls && !error; i++) {
        if (i + AHEAD < s->n_calls) /* a guess if there are fragments */
            __builtin_prefetch((const void *)(c->bias + s->calls[i + AHEAD].address +
                                              (uintptr_t)c->distance), 1);
        while (s->calls[i].address - s->units[unit].start >= s->units[unit].size)
            unit++; /* the reader saw to it that there is one */
        error = move_call(c, &e, &s->calls[i], s->units[unit].reason == ANALYSIS_PROVEN);
    }
    if (e.ways)
        emit_count(&e, 0);
    emit_calls_close(&e);
    return error;
}
