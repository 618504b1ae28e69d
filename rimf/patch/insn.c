/* SPDX-License-Identifier: MIT
 *
 * rimf/patch/insn.c: decides whether bytes are one instruction.
 *
 * A thread may stand at any instruction boundary inside the old bytes (preempted there, or with a return
 * address on its stack), and would continue in the middle of the new ones.  So while threads run, a patch
 * is safe only if its old bytes are a single instruction.  Bytes behind an unconditional jump are never
 * reached: `e9 rel32 90`, `eb rel8 cc cc cc`.
 *
 * It knows the forms that compilers and linkers emit where code is patched: branches, calls, NOPs, moves
 * and integer arithmetic of the one-byte opcode map, and a few of the two-byte map.  For anything else the
 * patch is refused.
 */
#include "rimf/patch/private.h"

/* The parts after the opcode: ModRM?, immediate of this size. */
#define M 0x10 /* ModRM */
#define Z 4    /* 4 bytes; 2 after 66 (refused below) */
#define NO 0xff

/* opcodes 00-3f are eight rows alike: op r/m,r; op r,r/m (byte and word); op al,ib; op eax,iz */
static uint8_t one_byte(uint8_t op, uint8_t modrm)
{
    static const uint8_t row[8] = {M, M, M, M, 1, Z, NO, NO};

    if (op < 0x40)
        return row[op & 7];
    if (op >= 0x50 && op <= 0x5f) /* push, pop */
        return 0;
    if (op >= 0x70 && op <= 0x7f) /* jcc rel8 */
        return 1;
    if (op >= 0x84 && op <= 0x8b) /* test, xchg, mov */
        return M;
    if (op >= 0xb0 && op <= 0xb7) /* mov $ib */
        return 1;
    if (op >= 0xb8 && op <= 0xbf) /* mov $iz (8 with REX.W: see length) */
        return Z;
    switch (op) {
    case 0x63: /* movsxd */
    case 0x8d: /* lea */
    case 0xd1: /* shift by 1 */
    case 0xd3:
    case 0xfe:
    case 0xff: /* inc, dec, call, jmp, push */
        return M;
    case 0x80: /* op r/m, ib */
    case 0x83:
    case 0x6b:
    case 0xc0:
    case 0xc1:
    case 0xc6:
        return M | 1;
    case 0x69: /* imul */
    case 0x81: /* op r/m, iz */
    case 0xc7: /* mov r/m, iz */
        return M | Z;
    case 0xf6: /* test r/m, ib; not, neg … */
        return (modrm & 0x30) ? M : M | 1;
    case 0xf7:
        return (modrm & 0x30) ? M : M | Z;
    case 0x6a: /* push ib */
    case 0xa8: /* test al, ib */
    case 0xeb: /* jmp rel8 */
        return 1;
    case 0x68: /* push iz */
    case 0xa9: /* test eax, iz */
    case 0xe8: /* call rel32 */
    case 0xe9: /* jmp rel32 */
        return Z;
    case 0xc2: /* ret iw */
        return 2;
    case 0x90: /* nop */
    case 0x98: /* cltq */
    case 0x99: /* cqto */
    case 0xc3: /* ret */
    case 0xc9: /* leave */
    case 0xcc: /* int3 */
        return 0;
    }
    return NO;
}

static uint8_t two_byte(uint8_t op)
{
    if (op >= 0x80 && op <= 0x8f) /* jcc rel32 */
        return Z;
    if (op >= 0x40 && op <= 0x4f) /* cmovcc */
        return M;
    if (op >= 0x90 && op <= 0x9f) /* setcc */
        return M;
    switch (op) {
    case 0x0b: /* ud2 */
        return 0;
    case 0x1e: /* endbr64 */
    case 0x1f: /* nop r/m */
    case 0xaf: /* imul */
    case 0xb6: /* movzx */
    case 0xb7:
    case 0xbe: /* movsx */
    case 0xbf:
        return M;
    }
    return NO;
}

/* ModRM with SIB and displacement, 64-bit addressing; 0: past the end. */
static size_t operand(const uint8_t *at, size_t room)
{
    uint8_t mod = at[0] >> 6, rm = at[0] & 7;
    size_t n = 1;

    if (mod == 3)
        return 1;
    if (rm == 4) {
        if (room < 2)
            return 0;
        n = 2;
        if (mod == 0 && (at[1] & 7) == 5)
            return n + 4;
    }
    if (mod == 0 && rm == 5)
        return n + 4;
    return n + (mod == 1 ? 1 : mod == 2 ? 4 : 0);
}

/* Length of the first instruction, or 0 if unknown. */
size_t patch_instruction(const uint8_t *code, size_t room)
{
    size_t at = 0;
    int wide = 0, narrow = 0;
    uint8_t form;

    while (at < room && (code[at] == 0x66 || code[at] == 0x67 || code[at] == 0x2e ||
                         code[at] == 0x3e || code[at] == 0xf2 || code[at] == 0xf3))
        narrow |= code[at++] == 0x66;
    if (at < room && (code[at] & 0xf0) == 0x40)
        wide = code[at++] & 8;
    if (at + 1 < room && code[at] == 0x0f) {
        form = two_byte(code[at + 1]);
        at += 2;
    } else if (at < room) {
        form = one_byte(code[at], at + 1 < room ? code[at + 1] : 0);
        if (wide && code[at] >= 0xb8 && code[at] <= 0xbf)
            form = 8;
        at++;
    } else {
        return 0;
    }
    if (form == NO || (narrow && (form & 15) == Z))
        return 0;
    if (form & M) {
        size_t n = at < room ? operand(code + at, room - at) : 0;
        if (n == 0)
            return 0;
        at += n;
    }
    at += form & 15;
    return at <= room ? at : 0;
}

int patch_one_instruction(const uint8_t *code, size_t length)
{
    size_t n = patch_instruction(code, length);

    if (n == 0)
        return 0;
    if (n < length && !(code[0] == 0xe9 || code[0] == 0xeb || code[0] == 0xc3 ||
                        (code[0] == 0xff && code[1] == 0x25)))
        return 0;
    while (n < length && (code[n] == 0x90 || code[n] == 0xcc))
        n++;
    return n == length;
}
