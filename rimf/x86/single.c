/* SPDX-License-Identifier: MIT
 *
 * rimf/x86/single.c: see single.h.
 */
#include "rimf/x86/single.h"

#include "rimf/base/base.h"
#include "rimf/x86/decode.h"

#define FILLS 0x2e /* cs: no effect on register operands */
#define RET 0xc3
#define STACK 4u   /* %rsp's number, without a bit of REX */

/* b8+r imm32: mov; 31, 33: xor; 89, 8b: mov between registers.  Its length, or 0. */
static unsigned instruction(const uint8_t *code, size_t room)
{
    uint8_t rex = room && (code[0] & 0xf0) == 0x40 ? code[0] : 0, opcode, modrm;
    unsigned at = rex != 0;

    if (room < at + 2u)
        return 0;
    opcode = code[at];
    if ((opcode & 0xf8) == 0xb8) /* too long with REX */
        return room >= 5 && !rex && (opcode & 7u) != STACK ? 5 : 0;
    modrm = code[at + 1];
    if ((opcode != 0x31 && opcode != 0x33 && opcode != 0x89 && opcode != 0x8b) || modrm < 0xc0)
        return 0;
    if (((modrm & 7u) == STACK && !(rex & 1)) || ((modrm >> 3 & 7u) == STACK && !(rex & 4)))
        return 0;
    return at + 2u;
}

int single_read(const uint8_t *code, size_t room, uint8_t made[SINGLE_CALL])
{
    size_t start = endbr64_size(code, room);
    unsigned length = instruction(code += start, room -= start);

    if (!length || room <= length || code[length] != RET)
        return 0;
    memset(made, FILLS, SINGLE_CALL - length);
    memcpy(made + SINGLE_CALL - length, code, length);
    return 1;
}

int single_stands(const uint8_t made[SINGLE_CALL])
{
    unsigned at = 0;

    while (at < SINGLE_CALL && made[at] == FILLS)
        at++;
    return at < SINGLE_CALL && instruction(made + at, SINGLE_CALL - at) == SINGLE_CALL - at;
}
