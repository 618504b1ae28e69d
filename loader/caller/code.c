/* SPDX-License-Identifier: MIT
 *
 * loader/caller/code.c: reads the instructions of a function, for caller/find.c.
 *
 * It finds where dladdr ends, how one function calls another, and whether a function (do_sym, or
 * the _dl_open of glibc 2.43) passes its own third or fourth argument to another one:
 *
 *     push …
 *     mov %rdx, R           or %rcx; R: preserved across calls, or a slot of the frame, displacement(%rbp)
 *     …
 *     mov R, %rdi           or %rdx or %rcx, if not overwritten yet
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
    case 0xc1: /* shl, shr … $imm */
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

/* Where a function keeps an argument across calls: in a register, or in a slot of its frame. */
struct kept {
    unsigned reg; /* %rbx, %rbp, %r12 to %r15; 0: not in a register */
    int64_t slot; /* its distance from %rbp; 0: not in the frame */
};

/* The distance of an operand `displacement(%rbp)`, or 0. */
static int64_t slot_of(uintptr_t at, const struct instruction *i)
{
    const uint8_t *displacement = (const uint8_t *)at + i->displacement_at;

    if (!i->has_modrm || operand_is_register(i) || i->rip || operand_rm(i) != RBP)
        return 0;
    switch (i->displacement_size) {
    case 1: return (int8_t)*displacement;
    case 4: return distance_at(displacement);
    }
    return 0;
}

/* Whether the instruction at `at` is a mov of 64 bits from the argument's register to where that is kept: stores it. */
static int is_keeping(uintptr_t at, const struct instruction *i, unsigned argument, struct kept *kept)
{
    int64_t slot = slot_of(at, i);

    for (unsigned r = RBX; r < 16; r++)
        if ((r == RBX || r == RBP || r >= 12) && is_move(i, argument, r)) {
            *kept = (struct kept){r, 0};
            return 1;
        }
    if (!slot || !instruction_is(i, 0, 0x89) || !(i->rex & 8) || operand_reg(i) != argument)
        return 0;
    *kept = (struct kept){0, slot};
    return 1;
}

/* The search ends at the first call, on the path without branches, so nothing else can arrive there. */
static struct kept keeping(const struct caller_function *function, unsigned argument)
{
    uintptr_t at = function->at, end = at + function->size;
    struct kept kept = {0, 0};
    struct instruction i;

    for (; at < end && decode((const uint8_t *)at, end - at, &i); at += i.length) {
        enum flow flow = instruction_flow(&i);

        if (flow != FLOW_NEXT && flow != FLOW_BRANCH)
            return kept;
        if (kept.slot)
            continue;
        if (kept.reg ? !keeps(&i, kept.reg) && !is_move(&i, argument, kept.reg)
                     : !is_keeping(at, &i, argument, &kept) && !keeps(&i, argument))
            break;
    }
    return (struct kept){0, 0};
}

/* Whether the instruction brings the argument to %rdi: 1 or 0; -1: it may change the slot that has it. */
static int brings(uintptr_t at, const struct instruction *i, unsigned argument, const struct kept *kept)
{
    struct kept same;

    if (is_move(i, argument, RDI) || (kept->reg && is_move(i, kept->reg, RDI)))
        return 1;
    if (!kept->slot || slot_of(at, i) != kept->slot)
        return 0;
    if (instruction_is(i, 0, 0x8b))
        return (i->rex & 8) && operand_reg(i) == RDI;
    return is_keeping(at, i, argument, &same) ? 0 : -1;
}

unsigned caller_asks(const struct caller_function *function, struct call_way way, unsigned argument)
{
    uintptr_t at = function->at, end = at + function->size;
    struct kept kept = keeping(function, argument);
    int is_passed = 0; /* %rdi has the argument */
    struct instruction i;
    unsigned asks = 0;

    for (; (kept.reg || kept.slot) && at < end; at += i.length) {
        struct call_way here;
        int brought;

        if (!decode((const uint8_t *)at, end - at, &i))
            return 0;
        here = way_of(at, &i);
        if (here.through == way.through && here.slot == way.slot) {
            if (!is_passed)
                return 0;
            asks++;
        }
        brought = brings(at, &i, argument, &kept);
        if (brought < 0)
            return 0;
        if (brought)
            is_passed = 1;
        else if (!keeps(&i, RDI))
            is_passed = 0;
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
