/* SPDX-License-Identifier: MIT
 *
 * rimf/x86/displace.c: see displace.h.
 */
#include "rimf/x86/displace.h"

#include "rimf/base/base.h"

#include <errno.h> /* numbers only */

struct function {
    const uint8_t *code;
    size_t size;
    uintptr_t start;
    size_t first, end; /* the displaced bytes, from `code` on */
};

/* Whether this address in the process is one of the displaced bytes. */
static int is_displaced(const struct function *f, uintptr_t at)
{
    return at - (f->start + f->first) < f->end - f->first;
}

int displace_one(const uint8_t *code, uintptr_t from, uintptr_t to, const struct instruction *i, uint8_t *bytes)
{
    int branches = flow_is_relative(instruction_flow(i));
    uintptr_t target;
    intptr_t distance;
    int32_t narrow;

    memcpy(bytes, code, i->length);
    if (!branches && !i->rip)
        return 0;
    if (branches ? i->immediate_size != sizeof narrow : i->prefixes & PREFIX_ADDRESS)
        return -ENOTSUP;
    target = branches ? branch_target(code, from, i) : rip_target(code, from, i);
    distance = (intptr_t)(target - (to + i->length));
    narrow = (int32_t)distance;
    if (narrow != distance)
        return -ERANGE;
    memcpy(bytes + (branches ? i->immediate_at : i->displacement_at), &narrow, sizeof narrow);
    return 0;
}

static const char *move_all(struct function *f, uintptr_t to, uint8_t *bytes)
{
    struct instruction i;

    for (f->end = f->first; f->end < f->first + DISPLACE_JUMP; f->end += i.length) {
        size_t done = f->end - f->first;
        int error;

        if (f->end == f->size)
            return "it is shorter than a jump";
        if (!decode(f->code + f->end, f->size - f->end, &i))
            return "its first instructions are not understood";
        if (instruction_flow(&i) != FLOW_NEXT || i.odd)
            return "it does not begin with instructions that may run elsewhere";
        error = displace_one(f->code + f->end, f->start + f->end, to + done, &i, bytes + done);
        if (error)
            return error == -ERANGE ? "what it begins with is too far from its other place"
                                    : "it begins with an operand of 32 bits";
    }
    return NULL;
}

/* lea f(%rip): takes the function's address, and reads nothing there. */
static int is_own_address(const struct function *f, size_t at, const struct instruction *i)
{
    return instruction_is(i, 0, 0x8d) &&
           rip_target(f->code + at, f->start + at, i) == f->start + f->first;
}

/* Nothing in the function may branch behind the first displaced byte, or read displaced bytes.  A
 * branch to the first byte is fine: it reaches the jump. */
static const char *check_rest(const struct function *f)
{
    struct instruction i;

    for (size_t at = f->first; at < f->size; at += i.length) {
        if (!decode(f->code + at, f->size - at, &i))
            return "it is not understood";
        if (flow_is_relative(instruction_flow(&i))) {
            uintptr_t target = branch_target(f->code + at, f->start + at, &i);

            if (target != f->start + f->first && is_displaced(f, target))
                return "it goes back to its first instructions";
        }
        if (i.rip && !is_own_address(f, at, &i) && is_displaced(f, rip_target(f->code + at, f->start + at, &i)))
            return "it looks at its own first instructions";
    }
    return NULL;
}

static const char *pass_over(struct function *f)
{
    struct instruction i;

    for (f->end = f->first; f->end < f->first + DISPLACE_JUMP; f->end += i.length) {
        enum flow flow;

        if (f->size < f->first + DISPLACE_JUMP)
            return "it is shorter than a jump";
        if (!decode(f->code + f->end, f->size - f->end, &i))
            return "its first instructions are not understood";
        flow = instruction_flow(&i);
        if (flow == FLOW_CALL_INDIRECT && !instruction_is(&i, 0, 0xff)) /* the kernel may make it again */
            return "a system call is among its first instructions";
        if ((flow == FLOW_CALL || flow == FLOW_CALL_INDIRECT) && f->end + i.length < f->first + DISPLACE_JUMP)
            return "a call among its first instructions returns to them";
    }
    f->end = f->first + DISPLACE_JUMP;
    return check_rest(f);
}

const char *displace_over(const uint8_t *code, size_t size, uintptr_t start, struct displaced *out)
{
    struct function f = {.code = code, .size = size, .start = start, .first = endbr64_size(code, size)};

    *out = (struct displaced){.skip = (uint8_t)f.first, .length = DISPLACE_JUMP};
    return pass_over(&f);
}

const char *displace(const uint8_t *code, size_t size, uintptr_t start, uintptr_t to, int again,
                     struct displaced *out)
{
    struct function f = {.code = code, .size = size, .start = start, .first = endbr64_size(code, size)};
    const char *why = move_all(&f, to, out->bytes);

    out->skip = (uint8_t)f.first;
    out->length = (uint8_t)(f.end - f.first);
    return why || again ? why : check_rest(&f);
}

int displace_jump(uint8_t jump[DISPLACE_JUMP], uintptr_t from, uintptr_t to)
{
    intptr_t distance = (intptr_t)(to - (from + DISPLACE_JUMP));
    int32_t narrow = (int32_t)distance;

    if (narrow != distance)
        return -ERANGE;
    jump[0] = 0xe9;
    memcpy(jump + 1, &narrow, sizeof narrow);
    return 0;
}
