/* SPDX-License-Identifier: MIT
 *
 * loader/answers_code.c: what the instructions of a function say of it (answers_find.c).
 *
 * Three things: where dladdr ends, how one function calls another, and whether one is
 * do_sym(handle, name, caller, …):
 *
 *     push …
 *     mov %rdx, R                               R: kept across calls
 *     …
 *     test %rdi, %rdi     48 85 ff              RTLD_DEFAULT?
 *     je …
 *     cmp $-1, %rdi       48 83 ff ff           RTLD_NEXT?
 *     je …
 *     …
 *     mov R, %rdi                               before each of the calls
 *     call _dl_find_dso_for_object
 */
#include "answers.h"

#include "decode.h"
#include "image.h"

#define RDI 7u
#define RDX 2u

static uintptr_t branch_target(uintptr_t at, const struct instruction *i)
{
    const uint8_t *p = (const uint8_t *)at + i->immediate_at;
    intptr_t distance = i->immediate_size == 4 ? answers_distance(p) : (int8_t)*p;

    return at + i->length + (uintptr_t)distance;
}

/* ---- registers ------------------------------------------------------------------------ */

static unsigned reg_of(const struct instruction *i)
{
    return modrm_reg(i) | (i->rex & 4u) << 1;
}

static unsigned rm_of(const struct instruction *i)
{
    return (i->modrm & 7u) | (i->rex & 1u) << 3;
}

static int is_register(const struct instruction *i)
{
    return i->modrm >= 0xc0;
}

/* It is one of those that compilers put before a tail call, or between the start of a
 * function and its first branch, and the register is as before. */
static int keeps(const struct instruction *i, unsigned reg)
{
    unsigned low = (i->opcode & 7u) | (i->rex & 1u) << 3;

    if (i->encoding != ENCODING_LEGACY || i->map > 1)
        return 0;
    if (i->map == 1)
        return i->opcode == 0x1e || i->opcode == 0x1f || /* endbr64, nop */
               (i->opcode >= 0x80 && i->opcode <= 0x8f) || /* jcc */
               (i->opcode >= 0x40 && i->opcode <= 0x4f && reg_of(i) != reg); /* cmovcc */
    if ((i->opcode >= 0x50 && i->opcode <= 0x57) || (i->opcode >= 0x70 && i->opcode <= 0x7f))
        return 1; /* push, jcc */
    if ((i->opcode >= 0x58 && i->opcode <= 0x5f) || (i->opcode >= 0xb8 && i->opcode <= 0xbf))
        return low != reg; /* pop; mov $imm */
    switch (i->opcode) {
    case 0x8b: /* mov to a register, lea, xor */
    case 0x8d:
    case 0x33: return reg_of(i) != reg;
    case 0x89: /* mov from a register, xor, mov $imm */
    case 0x31:
    case 0xc7: return !is_register(i) || rm_of(i) != reg;
    case 0x39: /* cmp, test */
    case 0x3b:
    case 0x84:
    case 0x85: return 1;
    case 0x81: /* cmp $imm; add, sub of the stack pointer */
    case 0x83: return modrm_reg(i) == 7 || (is_register(i) && rm_of(i) == 4);
    case 0x90: /* nop, leave, jmp */
    case 0xc9:
    case 0xe9:
    case 0xeb: return 1;
    case 0xff: return modrm_reg(i) == 4; /* jmp *: to a statically linked dlopen's */
    }
    return 0;
}

/* Where the direct jumps out of the function all lead, or 0. */
uintptr_t answers_tail(const struct answer *function)
{
    uintptr_t at = function->at, end = at + function->size, tail = 0;
    struct instruction i;

    for (; at < end; at += i.length) {
        uintptr_t target;

        if (!decode((const uint8_t *)at, end - at, &i) || i.odd || !keeps(&i, RDI))
            return 0;
        if (!flow_is_relative(instruction_flow(&i)))
            continue;
        target = branch_target(at, &i);
        if (target >= function->at && target < end)
            continue;
        if (tail && tail != target)
            return 0;
        tail = target;
    }
    return tail;
}

/* ---- calls ------------------------------------------------------------------------- */

/* The instruction at `at` is a call: where it goes, or through.  0: it is none. */
static struct answer_way way_of(uintptr_t at, const struct instruction *i)
{
    const uint8_t *p = (const uint8_t *)at;

    if (instruction_is(i, 0, 0xe8))
        return (struct answer_way){branch_target(at, i), 0};
    if (instruction_is(i, 0, 0xff) && i->rip && modrm_reg(i) == 2)
        return (struct answer_way){
            at + i->length + (uintptr_t)(intptr_t)answers_distance(p + i->displacement_at), 1};
    return (struct answer_way){0, 0};
}

static int leads_to(struct mvld_image *image, const struct mvld_object *object,
                    struct answer_way way, uintptr_t callee)
{
    struct mvld_slot slot;

    if (!way.slot)
        return way.through && rimf_api()->plt_target(image, way.through) == callee;
    return rimf_api()->slot_find(image, object, way.through, &slot) == 0 && slot.target == callee;
}

/* How the function calls `callee`; through 0: it does not. */
struct answer_way answers_way(struct mvld_image *image, const struct mvld_object *object,
                           const struct answer *function, uintptr_t callee)
{
    uintptr_t at = function->at, end = at + function->size;
    struct instruction i;

    for (; at < end && decode((const uint8_t *)at, end - at, &i); at += i.length) {
        struct answer_way way = way_of(at, &i);

        if (leads_to(image, object, way, callee))
            return way;
    }
    return (struct answer_way){0, 0};
}

/* ---- do_sym -------------------------------------------------------------------------- */

/* mov from, to: two registers of 64 bits. */
static int is_move(const struct instruction *i, unsigned from, unsigned to)
{
    if (!is_register(i) || !(i->rex & 8))
        return 0;
    return (instruction_is(i, 0, 0x89) && reg_of(i) == from && rm_of(i) == to) ||
           (instruction_is(i, 0, 0x8b) && reg_of(i) == to && rm_of(i) == from);
}

/* Where the third argument is kept, when the first is compared with 0: a register, or 0. */
static unsigned caller_register(const struct answer *function)
{
    static const uint8_t test[] = {0x48, 0x85, 0xff};
    uintptr_t at = function->at, end = at + function->size;
    struct instruction i;
    unsigned kept = 0;

    for (; at < end && decode((const uint8_t *)at, end - at, &i); at += i.length) {
        if (end - at > sizeof test && memcmp((const void *)at, test, sizeof test) == 0)
            return kept;
        if (flow_is_relative(instruction_flow(&i)) || !keeps(&i, RDI))
            return 0;
        for (unsigned r = 3; r < 16 && !kept; r++)
            if ((r == 3 || r == 5 || r >= 12) && is_move(&i, RDX, r))
                kept = r;
        if (kept ? !keeps(&i, kept) && !is_move(&i, RDX, kept) : !keeps(&i, RDX))
            return 0;
    }
    return 0;
}

/* Each of its calls that way is asked for what is in the register. */
int answers_is_do_sym(const struct answer *function, struct answer_way way)
{
    static const uint8_t next[] = {0x48, 0x83, 0xff, 0xff};
    uintptr_t at = function->at, end = at + function->size;
    unsigned kept = caller_register(function), asks = 0;
    struct instruction i, before = {0};
    int knows_next = 0;

    for (; kept && at < end; at += i.length) {
        struct answer_way here;

        if (!decode((const uint8_t *)at, end - at, &i))
            return 0;
        here = way_of(at, &i);
        if (here.through == way.through && here.slot == way.slot) {
            if (!is_move(&before, kept, RDI))
                return 0;
            asks++;
        }
        knows_next |= i.length == sizeof next &&
                      memcmp((const void *)at, next, sizeof next) == 0;
        before = i;
    }
    return asks >= 2 && knows_next;
}

