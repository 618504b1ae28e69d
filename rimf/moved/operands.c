/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/operands.c: operands in originals of movable code that take a function's address
 * (moved/moved.h).
 *
 *     original  lea f(%rip), %rdi      leads to where f moved, as the same instruction that moved does
 *
 * Originals may still run: by a table that the analysis did not recognise, or because they were called before
 * their function got a jump.  They must take the same address for the same function.
 */
#include "rimf/moved/moved.h"

#include "rimf/base/base.h"
#include "rimf/x86/decode.h"
#include "rimf/image/private.h"

#include <errno.h> /* numbers only */

/* The wanted target of the displacement, given the present one. */
static uintptr_t wanted(const struct moving *c, uintptr_t target, int back)
{
    uintptr_t original;

    if (!back)
        return moving_canonical(c, target);
    original = rimf_original_of(c->image, target);
    return original && moving_canonical(c, original) == target ? original : target;
}

static int add(struct moved_words *w, const struct analysis_reference *reference, int back)
{
    const struct moving *c = w->c;
    uintptr_t at = c->bias + reference->address;
    uintptr_t next = at + sizeof(int32_t) + reference->rest;
    uintptr_t target = next + (uintptr_t)distance_at((const uint8_t *)at);
    uintptr_t to = wanted(c, target, back);
    int32_t distance = (int32_t)(to - next);

    if (to == target)
        return 0;
    if (distance != (intptr_t)(to - next))
        return -ERANGE;
    return moved_words_add(w, at, &distance, sizeof distance);
}

int move_operands(struct moving *c, int back)
{
    const struct analysis *s = c->analysis;
    struct moved_words *w;
    int error = 0;

    w = moved_words_begin(c);
    if (!w)
        return -ENOMEM;
    for (size_t i = 0; i < s->n_references && !error; i++)
        if (s->references[i].kind == ANALYSIS_TO_CODE)
            error = add(w, &s->references[i], back);
    if (!error)
        error = moved_words_flush(w);
    if (!error && w->refused)
        error = -ESTALE;
    moved_words_end(w);
    return error;
}
