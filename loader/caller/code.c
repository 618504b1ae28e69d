/* SPDX-License-Identifier: MIT
 *
 * loader/caller/code.c: reads the instructions of a function, for caller/find.c.
 *
 * It finds where dladdr ends, how one function calls another, and whether a function (do_sym, or
 * the _dl_open of glibc 2.43) passes its own third argument to another one:
 *
 *     push …
 *     mov %rdx, R           R: preserved across calls
 *     …
 *     mov R, %rdi           or %rdx, if not overwritten yet
 *     …
 *     call other
 */
#include "loader/caller/private.h"

#include "rimf/x86/decode.h"
#include "rimf/image/image.h"
#include "rimf/image/tables.h"
#include "rimf/x86/registers.h"

/* ---- registers ------------------------------------------------------------------------ */

static int two_byte_keeps(const struct instruction *i, unsigned reg)
{
    switch (i->opcode) {
    case 0x1e: /* endbr64, nop */
    case 0x1f:
    case 0x10: /* moves of vector registers */
    case 0x11:
    case 0x16:
    case 0x28:
    case 0x29:
    case 0x6c:
    case 0x6e:
    case 0x6f:
    case 0x7f:
    case 0xef: return 1;
    case 0xb6: /* movzx */
    case 0xb7: return operand_reg(i) != reg;
    }
    return (i->opcode >= 0x80 && i->opcode <= 0x8f) ||                         /* jcc */
           (i->opcode >= 0x40 && i->opcode <= 0x4f && operand_reg(i) != reg); /* cmovcc */
}

/* Whether the instruction is one that compilers put before a tail call, or between the start of a
 * function and its first branch, and does not change the register. */
static int keeps(const struct instruction *i, unsigned reg)
{
    unsigned low = (i->opcode & 7u) | (i->rex & 1u) << 3;

    if (i->encoding != ENCODING_LEGACY || i->map > 1)
        return 0;
    if (i->map == 1)
        return two_byte_keeps(i, reg);
    if ((i->opcode >= 0x50 && i->opcode <= 0x57) || (i->opcode >= 0x70 && i->opcode <= 0x7f))
        return 1; /* push, jcc */
    if ((i->opcode >= 0x58 && i->opcode <= 0x5f) || (i->opcode >= 0xb8 && i->opcode <= 0xbf))
        return low != reg; /* pop; mov $imm */
    switch (i->opcode) {
    case 0x8b: /* mov to a register, lea, xor */
    case 0x8d:
    case 0x33: return operand_reg(i) != reg;
    case 0x89: /* mov from a register, xor, mov $imm */
    case 0x31:
    case 0xc7: return !operand_is_register(i) || operand_rm(i) != reg;
    case 0x39: /* cmp, test */
    case 0x3b:
    case 0x84:
    case 0x85: return 1;
    case 0x68: /* push $imm */
    case 0x6a: return 1;
    case 0x81: /* cmp $imm; add, sub … */
    case 0x83: return modrm_reg(i) == 7 || !operand_is_register(i) || operand_rm(i) != reg;
    case 0xf6: /* test $imm */
    case 0xf7: return modrm_reg(i) < 2;
    case 0x90: /* nop, leave, jmp */
    case 0xc9:
    case 0xe9:
    case 0xeb: return 1;
    case 0xff: return modrm_reg(i) == 4; /* jmp *: to the dlopen of a static program */
    }
    return 0;
}

uintptr_t caller_tail(const struct caller_function *function)
{
    uintptr_t at = function->at, end = at + function->size, tail = 0;
    struct instruction i;

    for (; at < end; at += i.length) {
        uintptr_t target;

        if (!decode((const uint8_t *)at, end - at, &i) || i.odd || !keeps(&i, RDI))
            return 0;
        if (!flow_is_relative(instruction_flow(&i)))
            continue;
        target = branch_target((const uint8_t *)at, at, &i);
        if (target >= function->at && target < end)
            continue;
        if (tail && tail != target)
            return 0;
        tail = target;
    }
    return tail;
}

/* ---- calls ------------------------------------------------------------------------- */

/* If the instruction at `at` is a call: its target, or the slot that it goes through.  0: it is no
 * call. */
static struct call_way way_of(uintptr_t at, const struct instruction *i)
{
    const uint8_t *p = (const uint8_t *)at;

    if (instruction_is(i, 0, 0xe8))
        return (struct call_way){branch_target(p, at, i), 0};
    if (instruction_is(i, 0, 0xff) && i->rip && modrm_reg(i) == 2)
        return (struct call_way){rip_target(p, at, i), 1};
    return (struct call_way){0, 0};
}

static int leads_to(struct mvld_image *image, const struct mvld_object *object,
                    struct call_way way, uintptr_t callee)
{
    const struct mvld_object *holder;
    struct mvld_slot slot;

    if (!way.slot)
        return way.through && rimf_api()->plt_target(image, way.through) == callee;
    return rimf_slot_target(image, object, way.through, &slot, &holder) == 0 && slot.target == callee;
}

struct call_way caller_way(struct mvld_image *image, const struct mvld_object *object,
                           const struct caller_function *function, uintptr_t callee)
{
    uintptr_t at = function->at, end = at + function->size;
    struct instruction i;

    for (; at < end && decode((const uint8_t *)at, end - at, &i); at += i.length) {
        struct call_way way = way_of(at, &i);

        if (leads_to(image, object, way, callee))
            return way;
    }
    return (struct call_way){0, 0};
}

/* ---- callers by address --------------------------------------------------------------- */

/* mov from, to: two registers of 64 bits. */
static int is_move(const struct instruction *i, unsigned from, unsigned to)
{
    if (!operand_is_register(i) || !(i->rex & 8))
        return 0;
    return (instruction_is(i, 0, 0x89) && operand_reg(i) == from && operand_rm(i) == to) ||
           (instruction_is(i, 0, 0x8b) && operand_reg(i) == to && operand_rm(i) == from);
}

/* The register that preserves the third argument across calls, or 0.  The search ends at the first
 * call, on the path without branches, so nothing else can arrive. */
static unsigned third_argument(const struct caller_function *function)
{
    uintptr_t at = function->at, end = at + function->size;
    struct instruction i;
    unsigned kept = 0;

    for (; at < end && decode((const uint8_t *)at, end - at, &i); at += i.length) {
        enum flow flow = instruction_flow(&i);

        if (flow != FLOW_NEXT && flow != FLOW_BRANCH)
            return kept;
        for (unsigned r = 3; r < 16 && !kept; r++)
            if ((r == 3 || r == 5 || r >= 12) && is_move(&i, RDX, r))
                kept = r;
        if (kept ? !keeps(&i, kept) && !is_move(&i, RDX, kept) : !keeps(&i, RDX))
            return 0;
    }
    return 0;
}

unsigned caller_asks(const struct caller_function *function, struct call_way way)
{
    uintptr_t at = function->at, end = at + function->size;
    unsigned kept = third_argument(function), asks = 0;
    int is_third = 0; /* %rdi has the third argument */
    struct instruction i;

    for (; kept && at < end; at += i.length) {
        struct call_way here;

        if (!decode((const uint8_t *)at, end - at, &i))
            return 0;
        here = way_of(at, &i);
        if (here.through == way.through && here.slot == way.slot) {
            if (!is_third)
                return 0;
            asks++;
        }
        if (is_move(&i, kept, RDI) || is_move(&i, RDX, RDI))
            is_third = 1;
        else if (!keeps(&i, RDI))
            is_third = 0;
    }
    return asks;
}

int caller_compares(const struct caller_function *function, const uint8_t bytes[4])
{
    uintptr_t at = function->at, end = at + function->size;
    struct instruction i;

    for (; at < end && decode((const uint8_t *)at, end - at, &i); at += i.length)
        if (i.length == 4 && memcmp((const void *)at, bytes, 4) == 0)
            return 1;
    return 0;
}
