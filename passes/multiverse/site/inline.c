/* SPDX-License-Identifier: MIT
 *
 * inline.c: whether a variant's body may replace its call.
 *
 *     [endbr64] [NOPs: pad, alignment, profiling] [one instruction] ret, or a jump to a kernel's return thunk
 *
 * The instruction must have the same effect at any address: no RIP-relative operand, no stack (the
 * call would have pushed an address), no control flow, no prefix with a meaning.  A list of plain
 * integer instructions is accepted and the rest refused: a wrong refusal costs a call, a wrong
 * acceptance breaks the program.  Flags do not matter, since none is live across a call.
 */
#include "passes/multiverse/site/site.h"

#include "rimf/base/base.h"
#include "rimf/x86/decode.h"

static int is_plain_one(const struct instruction *i)
{
    unsigned reg = modrm_reg(i);

    switch (i->opcode) {
    case 0x00 ... 0x3f:            /* add, or, adc, sbb, and, sub, xor, cmp; decode() knows no others there */
    case 0x63:                     /* movslq */
    case 0x69: case 0x6b:          /* imul $i */
    case 0x80 ... 0x85:            /* op $i, test */
    case 0x88 ... 0x8b: case 0x8d: /* mov, lea */
    case 0x98: case 0x99:          /* cltq, cltd */
    case 0xa8: case 0xa9:          /* test $i */
    case 0xb0 ... 0xbf:            /* mov $i */
    case 0xc0: case 0xc1: case 0xd0 ... 0xd3: /* shifts */
    case 0xf4: case 0xf5:          /* hlt, cmc */
    case 0xf8 ... 0xfd:            /* clc, stc, cli, sti, cld, std */
        return 1;
    case 0xc6: case 0xc7: /* mov $i; others are xabort, xbegin */
        return reg == 0;
    case 0xf6: case 0xf7: /* test, not, neg, mul; no division */
        return reg == 0 || (reg >= 2 && reg <= 5);
    case 0xfe: case 0xff: /* inc, dec; others are calls and jumps */
        return reg <= 1;
    }
    return 0;
}

static int is_plain_two(const struct instruction *i)
{
    switch (i->opcode) {
    case 0x20: case 0x22: /* mov of control registers */
        return i->modrm >= 0xc0;
    case 0x40 ... 0x4f: /* cmovcc */
    case 0x90 ... 0x9f: /* setcc */
    case 0xaf:          /* imul */
    case 0xb6 ... 0xb7: case 0xbe ... 0xbf: /* movzx, movsx */
    case 0xc8 ... 0xcf: /* bswap */
    case 0x09: case 0x31: case 0xa2: /* wbinvd, rdtsc, cpuid */
        return 1;
    }
    return 0;
}

/* Opcodes whose modrm.reg is no general register. */
static int is_group(const struct instruction *i)
{
    uint8_t op = i->opcode;

    if (i->map)
        return op == 0x20 || op == 0x22 || (op >= 0x90 && op <= 0x9f);
    return (op >= 0x80 && op <= 0x83) || op == 0xc0 || op == 0xc1 || op == 0xc6 || op == 0xc7 ||
           (op >= 0xd0 && op <= 0xd3) || op == 0xf6 || op == 0xf7 || op >= 0xfe;
}

/* Register number 4 is %rsp, or %ah without REX in a byte instruction. */
static int names_stack(const uint8_t *code, const struct instruction *i)
{
    int rm = (i->modrm & 7) == 4;

    if (!i->has_modrm) /* mov $i,%r and bswap contain a number */
        return !(i->rex & 1) && (i->map ? i->opcode == 0xcc : i->opcode == 0xb4 || i->opcode == 0xbc);
    if (modrm_reg(i) == 4 && !(i->rex & 4) && !is_group(i))
        return 1;
    if (rm && i->modrm < 0xc0) /* the base, in a SIB byte */
        rm = (code[i->displacement_at - 1] & 7) == 4;
    return rm && !(i->rex & 1);
}

static int is_plain(const uint8_t *code, const struct instruction *i)
{
    if (i->encoding != ENCODING_LEGACY || i->map > 1 || i->prefixes & ~PREFIX_OPERAND || i->rip)
        return i->length == 2 && instruction_is(i, 0, 0x90) && i->prefixes == PREFIX_REP; /* pause */
    return (i->map ? is_plain_two : is_plain_one)(i) && !names_stack(code, i);
}

unsigned mv_inline_length(const uint8_t *code, size_t size)
{
    struct instruction i;

    return decode(code, size, &i) && is_plain(code, &i) ? i.length : 0;
}

/* 90, 66 90, 0f 1f /0 */
static int is_nop(const struct instruction *i)
{
    return (instruction_is(i, 0, 0x90) || (instruction_is(i, 1, 0x1f) && !modrm_reg(i))) && !i->rex &&
           !(i->prefixes & (PREFIX_REP | PREFIX_REPNE));
}

/* ret, rep ret, or jmp thunk */
static int is_return(const uint8_t *code, size_t size, uintptr_t thunk)
{
    int32_t distance;

    if (thunk && size >= 5 && code[0] == 0xe9) {
        memcpy(&distance, code + 1, sizeof distance);
        return (uintptr_t)code + 5 + (uintptr_t)(intptr_t)distance == thunk;
    }
    return size && (code[0] == 0xc3 || (size >= 2 && code[0] == 0xf3 && code[1] == 0xc3));
}

void mv_inline_read(const uint8_t *body, size_t size, uintptr_t thunk, struct mv_inline *out)
{
    const uint8_t *end = body + size;
    struct instruction i = {.length = 0};

    memset(out, 0, sizeof *out);
    out->thunk = thunk != 0;
    body += endbr64_size(body, size);
    while (!is_return(body, (size_t)(end - body), thunk)) {
        if (!decode(body, (size_t)(end - body), &i))
            return;
        if (is_nop(&i)) {
            out->nops |= i.length == 2 || i.length == 5; /* not the one that replaces an endbr64 */
        } else {
            if (i.length > MV_CALL_MAX || !is_return(body + i.length, (size_t)(end - body) - i.length, thunk) ||
                !is_plain(body, &i))
                return;
            memcpy(&out->bytes, body, i.length);
            out->length = i.length;
            break;
        }
        body += i.length;
    }
    out->usable = 1;
}
