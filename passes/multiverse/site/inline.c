/* SPDX-License-Identifier: MIT
 *
 * inline.c: whether a variant's body may replace its call.
 *
 *     [endbr64] [NOPs: pad, alignment, profiling] [one instruction] ret
 *
 * The instruction must have the same effect at any address: no RIP-relative operand, no stack (the
 * call would have pushed an address), no control flow, no prefix with a meaning.  The decoder below
 * knows a list of plain integer instructions and refuses the rest: a wrong refusal costs a call, a
 * wrong acceptance breaks the program.  Flags do not matter, since none is live across a call.
 */
#include "passes/multiverse/site/site.h"

#include "rimf/base/base.h"

/* The bytes after the opcode. */
enum shape {
    BAD = 0,
    PLAIN,      /* nothing */
    MODRM,      /* modrm with its sib and displacement */
    MODRM_8,    /* the same, then imm8 */
    MODRM_32,   /* the same, then imm16 or imm32 */
    IMM_8,
    IMM_32,     /* imm16 with 66 */
    MOV_IMM,    /* b8+r: as IMM_32, imm64 with REX.W */
};

static enum shape shape_of_one(uint8_t opcode, uint8_t reg)
{
    switch (opcode) {
    case 0x00 ... 0x03: case 0x08 ... 0x0b: /* add, or */
    case 0x10 ... 0x13: case 0x18 ... 0x1b: /* adc, sbb: flags are stale, as they are for the body
                                             * itself */
    case 0x20 ... 0x23: case 0x28 ... 0x2b: /* and, sub */
    case 0x30 ... 0x33: case 0x38 ... 0x3b: /* xor, cmp */
    case 0x63:                              /* movslq */
    case 0x84 ... 0x85:                     /* test */
    case 0x88 ... 0x8b: case 0x8d:          /* mov, lea */
    case 0xd0 ... 0xd3:                     /* shifts by 1, %cl */
        return MODRM;
    case 0x04: case 0x0c: case 0x24: case 0x2c: case 0x34: case 0x3c: case 0xa8: /* op $i,%al */
    case 0xb0 ... 0xb7:                                                          /* mov $i,%r8 */
        return IMM_8;
    case 0x05: case 0x0d: case 0x25: case 0x2d: case 0x35: case 0x3d: case 0xa9: /* op $i,%eax */
        return IMM_32;
    case 0xb8 ... 0xbf:
        return MOV_IMM;
    case 0x80: case 0x83: case 0xc0: case 0xc1: case 0x6b: /* op $i8; shift $i8; imul $i8 */
        return MODRM_8;
    case 0x81: case 0x69: /* op $i32; imul $i32 */
        return MODRM_32;
    case 0xc6:
        return reg == 0 ? MODRM_8 : BAD; /* movb $i; others are xabort */
    case 0xc7:
        return reg == 0 ? MODRM_32 : BAD;
    case 0xf6:
        return reg == 0 ? MODRM_8 : reg >= 2 && reg <= 5 ? MODRM : BAD; /* test, not neg mul */
    case 0xf7:
        return reg == 0 ? MODRM_32 : reg >= 2 && reg <= 5 ? MODRM : BAD;
    case 0xfe: case 0xff:
        return reg <= 1 ? MODRM : BAD; /* inc, dec; others are calls and jumps */
    case 0x98: case 0x99:              /* cltq, cltd */
    case 0xf4: case 0xf5:              /* hlt, cmc */
    case 0xf8 ... 0xfd:                /* clc, stc, cli, sti, cld, std */
        return PLAIN;
    }
    return BAD;
}

static enum shape shape_of_two(uint8_t opcode)
{
    switch (opcode) {
    case 0x20: case 0x22: /* mov of control registers */
    case 0x40 ... 0x4f: /* cmovcc */
    case 0x90 ... 0x9f: /* setcc */
    case 0xaf:          /* imul */
    case 0xb6 ... 0xb7: case 0xbe ... 0xbf: /* movzx, movsx */
        return MODRM;
    case 0xc8 ... 0xcf: /* bswap */
    case 0x09: case 0x31: case 0xa2: /* wbinvd, rdtsc, cpuid */
        return PLAIN;
    }
    return BAD;
}

/* Length of modrm, sib and displacement.  0 if it names the stack pointer, is RIP-relative, or does
 * not fit. */
static unsigned modrm_length(const uint8_t *at, size_t size, uint8_t rex, int reg_is_register)
{
    if (!size)
        return 0;

    unsigned mod = at[0] >> 6, reg = at[0] >> 3 & 7, rm = at[0] & 7, length = 1;

    /* Number 4 is %rsp, or %ah without REX in a byte instruction. */
    if (reg_is_register && reg == 4 && !(rex & 4))
        return 0;
    if (mod == 3)
        return rm == 4 && !(rex & 1) ? 0 : 1;
    if (rm == 4) { /* sib */
        if (size < 2)
            return 0;

        unsigned base = at[1] & 7;

        length = 2;
        if (base == 4 && !(rex & 1))
            return 0; /* (%rsp) */
        if (base == 5 && mod == 0)
            length += 4;
    } else if (rm == 5 && mod == 0) {
        return 0; /* disp32(%rip) */
    }
    length += mod == 1 ? 1 : mod == 2 ? 4 : 0;
    return length <= size ? length : 0;
}

/* mov to or from a control register, which modrm.reg names. */
static int is_control(uint8_t opcode, int two)
{
    return two && (opcode == 0x20 || opcode == 0x22);
}

/* Opcodes whose modrm.reg is no general register. */
static int is_group(uint8_t opcode, int two)
{
    if (two)
        return is_control(opcode, two) || (opcode >= 0x90 && opcode <= 0x9f);
    return opcode == 0x80 || opcode == 0x81 || opcode == 0x83 || opcode == 0xc0 ||
           opcode == 0xc1 || (opcode >= 0xd0 && opcode <= 0xd3) || opcode == 0xc6 ||
           opcode == 0xc7 || opcode == 0xf6 || opcode == 0xf7 || opcode >= 0xfe;
}

/* Opcodes that contain a register's number: mov $i,%r and bswap. */
static int names_stack(uint8_t opcode, int two, uint8_t rex)
{
    if (rex & 1)
        return 0;
    return two ? opcode == 0xcc : opcode == 0xb4 || opcode == 0xbc;
}

unsigned mv_inline_length(const uint8_t *code, size_t size)
{
    size_t at = 0;
    int narrow = 0, two = 0;
    uint8_t rex = 0;

    if (size >= 2 && code[0] == 0xf3 && code[1] == 0x90) /* pause */
        return 2;
    if (at < size && code[at] == 0x66) { /* 16-bit operands */
        narrow = 1;
        at++;
    }
    if (at < size && (code[at] & 0xf0) == 0x40)
        rex = code[at++];
    if (at < size && code[at] == 0x0f) {
        two = 1;
        at++;
    }
    if (at >= size)
        return 0;

    uint8_t opcode = code[at++];
    uint8_t reg = at < size ? code[at] >> 3 & 7 : 0;
    enum shape shape = two ? shape_of_two(opcode) : shape_of_one(opcode, reg);
    unsigned wide = narrow && !(rex & 8) ? 2 : 4, modrm = 0, immediate = 0;

    if (shape == BAD || names_stack(opcode, two, rex))
        return 0;
    if (shape == MODRM || shape == MODRM_8 || shape == MODRM_32) {
        modrm = modrm_length(code + at, size - at, rex, !is_group(opcode, two));
        if (!modrm)
            return 0;
        if (!two && opcode == 0x8d && code[at] >> 6 == 3)
            return 0; /* lea needs memory */
        if (is_control(opcode, two) && code[at] >> 6 != 3)
            return 0;
    }
    if (shape == MODRM_8 || shape == IMM_8)
        immediate = 1;
    else if (shape == MODRM_32 || shape == IMM_32)
        immediate = wide;
    else if (shape == MOV_IMM)
        immediate = rex & 8 ? 8 : wide;
    at += modrm + immediate;
    return at <= size ? (unsigned)at : 0;
}

/* Length of the NOP at `code`, or 0: 90, 66 90, 0f 1f /0, and with 66 and 2e before. */
static unsigned nop_length(const uint8_t *code, size_t size)
{
    size_t at = 0;
    unsigned modrm;

    while (at < size && (code[at] == 0x66 || code[at] == 0x2e))
        at++;
    if (at < size && code[at] == 0x90)
        return (unsigned)at + 1;
    if (size - at < 3 || code[at] != 0x0f || code[at + 1] != 0x1f || (code[at + 2] & 0x38))
        return 0;
    modrm = modrm_length(code + at + 2, size - at - 2, 0, 0);
    return modrm ? (unsigned)at + 2 + modrm : 0;
}

/* ret, or rep ret */
static int is_return(const uint8_t *code, size_t size)
{
    return size && (code[0] == 0xc3 || (size >= 2 && code[0] == 0xf3 && code[1] == 0xc3));
}

void mv_inline_read(const uint8_t *body, size_t size, struct mv_inline *out)
{
    static const uint8_t endbr64[4] = {0xf3, 0x0f, 0x1e, 0xfa};
    unsigned length;

    memset(out, 0, sizeof *out);
    if (size >= sizeof endbr64 && !memcmp(body, endbr64, sizeof endbr64)) {
        body += sizeof endbr64;
        size -= sizeof endbr64;
    }
    while ((length = nop_length(body, size))) {
        out->nops |= length == 2 || length == 5; /* not the one that replaces an endbr64 */
        body += length;
        size -= length;
    }
    if (!is_return(body, size)) {
        length = mv_inline_length(body, size);
        if (!length || length > MV_CALL_MAX || !is_return(body + length, size - length))
            return;
        memcpy(&out->bytes, body, length);
    }
    out->usable = 1;
    out->length = (uint8_t)length;
}
