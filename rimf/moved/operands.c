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
#include "rimf/emit/changes.h"
#include "rimf/x86/decode.h"

#include <errno.h> /* numbers only */

static int add(struct changes *list, const struct moving *c, const struct analysis_reference *reference)
{
    uintptr_t at = c->bias + reference->address;
    uintptr_t next = at + sizeof(int32_t) + reference->rest;
    uintptr_t target = next + (uintptr_t)distance_at((const uint8_t *)at);
    uintptr_t to = moving_canonical(c, target);
    int32_t distance = (int32_t)(to - next);

    if (to == target)
        return 0;
    if (distance != (intptr_t)(to - next))
        return -ERANGE;
    changes_add(list, at, (const void *)at, &distance, sizeof distance);
    return 0;
}

int move_operands(struct moving *c, struct changes *list)
{
    const struct analysis *s = c->analysis;
    int error = 0;

    for (size_t i = 0; i < s->n_references && !error; i++)
        if (s->references[i].kind == ANALYSIS_TO_CODE)
            error = add(list, c, &s->references[i]);
    return error;
}
