/* SPDX-License-Identifier: MIT
 *
 * rimf/x86/decode.c: see decode.h.
 *
 *     [prefixes] [REX] opcode           [ModRM [SIB] [displacement]] [immediate]
 *     [prefixes] [REX] 0f opcode                …
 *     [prefixes] [REX] 0f 38|3a opcode          …
 *     c5 b opcode | c4 b b opcode | 62 b b b opcode | 8f b b opcode …
 *
 * For each of the first two maps, a table has one byte for each opcode, with the parts that follow
 * it.  In the other maps everything has a ModRM, and the map decides the immediate.  Groups, where
 * ModRM selects the operation, are in group().
 */
#include "rimf/x86/decode.h"

#include "rimf/base/base.h"

enum {
    /* the immediate, three bits */
    IB = 1,    /* 1 byte */
    IW,        /* 2 */
    IZ,        /* 4; 2 after 66 */
    IV,        /* 8 with REX.W; 4; 2 after 66 */
    IWB,       /* 3: enter */
    REL32,     /* 4 whatever prefixes say */
    MOFFS,     /* 8; 4 after 67 */
    IMMEDIATE = 7,
    M = 8,     /* a ModRM byte */
    ODD = 16,
    GROUP = 32,  /* ModRM.reg selects: look into group() */
    SPECIAL = 64, /* a prefix, or the start of another map */
    BAD = 128
};

#define ALU(first) /* add, or, adc … : eight rows alike, but for the last two of each */ \
    [first] = M, [first + 1] = M, [first + 2] = M, [first + 3] = M, [first + 4] = IB, \
    [first + 5] = IZ

static const uint8_t one_byte[256] = {
    ALU(0x00), ALU(0x08), ALU(0x10), ALU(0x18), ALU(0x20), ALU(0x28), ALU(0x30), ALU(0x38),
    [0x06] = BAD, [0x07] = BAD, [0x0e] = BAD, [0x0f] = SPECIAL,
    [0x16] = BAD, [0x17] = BAD, [0x1e] = BAD, [0x1f] = BAD,
    [0x26] = SPECIAL, [0x27] = BAD, [0x2e] = SPECIAL, [0x2f] = BAD,
    [0x36] = SPECIAL, [0x37] = BAD, [0x3e] = SPECIAL, [0x3f] = BAD,
    [0x40 ... 0x4f] = SPECIAL,                     /* REX */
    [0x50 ... 0x5f] = 0,                           /* push, pop */
    [0x60 ... 0x61] = BAD, [0x62] = SPECIAL,       /* EVEX */
    [0x63] = M, [0x64 ... 0x67] = SPECIAL,
    [0x68] = IZ, [0x69] = M | IZ, [0x6a] = IB, [0x6b] = M | IB,
    [0x6c ... 0x6f] = ODD,                         /* ins, outs */
    [0x70 ... 0x7f] = IB,                          /* jcc rel8 */
    [0x80] = M | IB, [0x81] = M | IZ, [0x82] = BAD, [0x83] = M | IB,
    [0x84 ... 0x8c] = M, [0x8d] = M | GROUP, [0x8e] = M, [0x8f] = SPECIAL, /* pop, XOP */
    [0x90 ... 0x99] = 0, [0x9a] = BAD, [0x9b ... 0x9f] = 0,
    [0xa0 ... 0xa3] = MOFFS,
    [0xa4 ... 0xa7] = 0, [0xa8] = IB, [0xa9] = IZ, [0xaa ... 0xaf] = 0,
    [0xb0 ... 0xb7] = IB, [0xb8 ... 0xbf] = IV,
    [0xc0] = M | IB, [0xc1] = M | IB, [0xc2] = IW, [0xc3] = 0,
    [0xc4 ... 0xc5] = SPECIAL,                     /* VEX */
    [0xc6] = M | IB | GROUP, [0xc7] = M | IZ | GROUP,
    [0xc8] = IWB | ODD, [0xc9] = 0, [0xca] = IW | ODD, [0xcb] = ODD,
    [0xcc] = 0, [0xcd] = IB | GROUP, [0xce] = BAD, [0xcf] = ODD,
    [0xd0 ... 0xd3] = M, [0xd4 ... 0xd6] = BAD, [0xd7] = ODD, /* xlat */
    [0xd8 ... 0xdf] = M,                           /* x87 */
    [0xe0 ... 0xe3] = IB,                          /* loop, jrcxz */
    [0xe4 ... 0xe7] = IB | ODD,                    /* in, out */
    [0xe8 ... 0xe9] = REL32, [0xea] = BAD, [0xeb] = IB,
    [0xec ... 0xef] = ODD,
    [0xf0] = SPECIAL, [0xf1] = ODD, [0xf2 ... 0xf3] = SPECIAL, [0xf4 ... 0xf5] = 0,
    [0xf6 ... 0xf7] = M | GROUP, [0xf8 ... 0xf9] = 0,
    [0xfa ... 0xfb] = ODD, [0xfc ... 0xfd] = 0, [0xfe ... 0xff] = M | GROUP,
};

static const uint8_t two_byte[256] = {
    [0x00 ... 0x03] = M, [0x04] = BAD, [0x05] = 0, [0x06 ... 0x09] = ODD,
    [0x0a] = BAD, [0x0b] = 0, [0x0c] = BAD, [0x0d] = M, [0x0e] = 0,
    [0x0f] = M | IB,                               /* 3DNow!: the operation byte comes last */
    [0x10 ... 0x1f] = M,
    [0x20 ... 0x23] = M | GROUP | ODD,             /* mov to and from cr, dr */
    [0x24 ... 0x27] = BAD, [0x28 ... 0x2f] = M,
    [0x30] = ODD, [0x31] = 0, [0x32] = ODD, [0x33] = 0, [0x34 ... 0x35] = ODD,
    [0x36] = BAD, [0x37] = 0, [0x38] = SPECIAL, [0x39] = BAD, [0x3a] = SPECIAL,
    [0x3b ... 0x3f] = BAD,
    [0x40 ... 0x6f] = M, [0x70 ... 0x73] = M | IB, [0x74 ... 0x76] = M, [0x77] = 0,
    [0x78] = M | GROUP, [0x79] = M, [0x7a ... 0x7b] = BAD, [0x7c ... 0x7f] = M,
    [0x80 ... 0x8f] = REL32,                       /* jcc rel32 */
    [0x90 ... 0x9f] = M,
    [0xa0 ... 0xa1] = 0, [0xa2] = 0, [0xa3] = M, [0xa4] = M | IB, [0xa5 ... 0xa7] = M,
    [0xa8 ... 0xa9] = 0, [0xaa] = ODD, [0xab] = M, [0xac] = M | IB, [0xad ... 0xaf] = M,
    [0xb0 ... 0xb7] = M, [0xb8] = M | GROUP, [0xb9] = M, [0xba] = M | IB, [0xbb ... 0xbf] = M,
    [0xc0 ... 0xc1] = M, [0xc2] = M | IB, [0xc3] = M, [0xc4 ... 0xc6] = M | IB, [0xc7] = M,
    [0xc8 ... 0xcf] = 0,                           /* bswap */
    [0xd0 ... 0xff] = M,
};

/* Reads bytes: `at` is the next one; past the end everything is 0 and `at` shows it. */
struct cursor {
    const uint8_t *code;
    unsigned at, end;
};

static uint8_t next(struct cursor *c)
{
    return c->at < c->end ? c->code[c->at++] : (c->at = c->end + 1, 0);
}

static uint8_t prefix_of(uint8_t byte)
{
    switch (byte) {
    case 0x66: return PREFIX_OPERAND;
    case 0x67: return PREFIX_ADDRESS;
    case 0xf2: return PREFIX_REPNE;
    case 0xf3: return PREFIX_REP;
    case 0xf0: return PREFIX_LOCK;
    case 0x26: case 0x2e: case 0x36: case 0x3e: case 0x64: case 0x65: return PREFIX_SEGMENT;
    }
    return 0;
}

/* A REX prefix is valid only directly before the opcode.  Returns the opcode. */
static uint8_t take_prefixes(struct cursor *c, struct instruction *i)
{
    uint8_t byte;

    while (c->at < c->end) {
        byte = next(c);
        if ((byte & 0xf0) == 0x40) {
            i->rex = byte;
            continue;
        }
        if (!(one_byte[byte] & SPECIAL) || !prefix_of(byte))
            return byte;
        i->prefixes |= prefix_of(byte);
        i->rex = 0;
    }
    c->at = c->end + 1;
    return 0;
}

/* The parts after the opcode of a map that VEX, EVEX or XOP selected. */
static unsigned vector_format(const struct instruction *i)
{
    switch (i->map) {
    case 1:
        if (i->opcode == 0x77)
            return i->encoding == ENCODING_VEX ? 0 : BAD; /* vzeroupper */
        return (i->opcode >= 0x70 && i->opcode <= 0x73) || i->opcode == 0xc2 ||
                       (i->opcode >= 0xc4 && i->opcode <= 0xc6)
                   ? M | IB
                   : M;
    case 2:
        return M;
    case 3:
        return M | IB;
    case 5:
    case 6:
        return i->encoding == ENCODING_EVEX ? M : BAD;
    case 8:
        return M | IB;
    case 9:
        return M;
    case 10:
        return M | IZ; /* 66 is refused before these: always four bytes */
    }
    return BAD;
}

/* The bytes between c4, c5, 62 or 8f and the opcode.  Prefixes that select an
 * operation elsewhere make these undefined. */
static unsigned take_vector(struct cursor *c, struct instruction *i, uint8_t first)
{
    uint8_t payload = next(c), second;

    if (i->rex || i->prefixes & (PREFIX_OPERAND | PREFIX_REPNE | PREFIX_REP | PREFIX_LOCK))
        return BAD;
    i->encoding = first == 0x62   ? ENCODING_EVEX
                  : first == 0x8f ? ENCODING_XOP
                                  : ENCODING_VEX;
    if (first == 0xc5) {
        i->map = 1;
    } else if (first == 0x62) {
        second = next(c);
        next(c);
        if (payload & 0x08 || !(second & 0x04)) /* fixed bits */
            return BAD;
        i->map = payload & 7;
    } else {
        next(c);
        i->map = payload & 0x1f;
        if (first == 0xc4 && i->map > 3)
            return BAD;
    }
    i->opcode_at = (uint8_t)c->at;
    i->opcode = next(c);
    return vector_format(i);
}

/* The format of the instruction, after its opcode was read. */
static unsigned take_opcode(struct cursor *c, struct instruction *i)
{
    uint8_t byte = take_prefixes(c, i);

    i->opcode_at = (uint8_t)(c->at - 1);
    i->opcode = byte;
    if (byte == 0x62 || byte == 0xc4 || byte == 0xc5)
        return take_vector(c, i, byte);
    if (byte == 0x8f) /* pop when the bits of ModRM.reg are 0, else XOP */
        return c->at < c->end && c->code[c->at] & 0x38
                   ? (c->code[c->at] & 0x18) ? take_vector(c, i, byte) : BAD
                   : M;
    if (byte != 0x0f)
        return one_byte[byte];
    i->map = 1;
    i->opcode = next(c);
    if (i->opcode != 0x38 && i->opcode != 0x3a)
        return two_byte[i->opcode];
    i->map = i->opcode == 0x38 ? 2 : 3;
    i->opcode = next(c);
    return i->map == 2 ? M : M | IB;
}

/* ModRM selects the operation, or there are special cases. */
static unsigned group(const struct instruction *i, unsigned format)
{
    unsigned reg = modrm_reg(i);
    int memory = i->modrm < 0xc0;

    if (i->map == 1) {
        if (i->opcode == 0x78 && i->prefixes & (PREFIX_OPERAND | PREFIX_REPNE))
            return M | IW; /* extrq, insertq: two bytes */
        if (i->opcode == 0xb8 && !(i->prefixes & PREFIX_REP))
            return BAD; /* with f3: popcnt */
        return format;
    }
    switch (i->opcode) {
    case 0x8d: /* lea of a register */
        return memory ? format : BAD;
    case 0xc6: /* mov; f8: xabort */
        return reg == 0 || i->modrm == 0xf8 ? format : BAD;
    case 0xc7: /* mov; f8: xbegin */
        return reg == 0 ? format : i->modrm == 0xf8 ? M | REL32 : BAD;
    case 0xcd: /* int */
        return format; /* odd depending on its operand: see decode */
    case 0xf6: /* test has an immediate, not, neg, mul … have none */
        return reg < 2 ? M | IB : M;
    case 0xf7:
        return reg < 2 ? M | IZ : M;
    case 0xfe:
        return reg < 2 ? M : BAD;
    default: /* ff: inc dec call callf jmp jmpf push */
        return reg == 7 || (!memory && (reg == 3 || reg == 5)) ? BAD
               : reg == 3 || reg == 5                          ? M | ODD
                                                               : M;
    }
}

static void take_modrm(struct cursor *c, struct instruction *i)
{
    unsigned mod, rm;

    i->has_modrm = 1;
    i->modrm = next(c);
    mod = i->modrm >> 6;
    rm = i->modrm & 7;
    /* Control and debug registers: mod is ignored. */
    if (mod == 3 || (i->map == 1 && i->encoding == ENCODING_LEGACY && i->opcode >= 0x20 &&
                     i->opcode <= 0x23))
        return;
    if (mod == 1)
        i->displacement_size = 1;
    else if (mod == 2)
        i->displacement_size = 4;
    if (rm == 4) {
        if ((next(c) & 7) == 5 && mod == 0)
            i->displacement_size = 4;
    } else if (rm == 5 && mod == 0) {
        i->displacement_size = 4;
        i->rip = 1;
    }
    i->displacement_at = (uint8_t)c->at;
    c->at += i->displacement_size;
}

static unsigned immediate_size(const struct instruction *i, unsigned format)
{
    int wide = i->rex & 8, narrow = i->prefixes & PREFIX_OPERAND && !wide;

    switch (format & IMMEDIATE) {
    case IB: return 1;
    case IW: return 2;
    case IZ: return narrow ? 2 : 4;
    case IV: return wide ? 8 : narrow ? 2 : 4;
    case IWB: return 3;
    case REL32: return 4;
    case MOFFS: return i->prefixes & PREFIX_ADDRESS ? 4 : 8;
    }
    return 0;
}

/* 66 without REX.W: a distance of two bytes to AMD, of four to Intel. */
static int is_narrow_branch(const struct instruction *i)
{
    return i->prefixes & PREFIX_OPERAND && !(i->rex & 8) && instruction_flow(i) != FLOW_NEXT &&
           (flow_is_relative(instruction_flow(i)) || i->opcode == 0xff);
}

unsigned decode(const uint8_t *code, size_t room, struct instruction *i)
{
    struct cursor c = {code, 0, room < 15 ? (unsigned)room : 15};
    unsigned format;

    memset(i, 0, sizeof *i);
    format = take_opcode(&c, i);
    if (format & M)
        take_modrm(&c, i);
    if (c.at > c.end)
        return 0;
    if (format & GROUP)
        format = group(i, format);
    /* lock: only with an operand in memory */
    if (format & BAD || (i->prefixes & PREFIX_LOCK && (!(format & M) || i->modrm >= 0xc0)))
        return 0;
    i->immediate_at = (uint8_t)c.at;
    i->immediate_size = (uint8_t)immediate_size(i, format);
    c.at += i->immediate_size;
    if (c.at > c.end)
        return 0;
    i->length = (uint8_t)c.at;
    i->odd = (format & ODD) != 0 || is_narrow_branch(i) ||
             (instruction_is(i, 0, 0xcd) && code[i->immediate_at] != 0x80);
    return i->length;
}

static enum flow flow_of_ff(const struct instruction *i)
{
    switch (modrm_reg(i)) {
    case 2:
    case 3: return FLOW_CALL_INDIRECT;
    case 4:
    case 5: return FLOW_JUMP_INDIRECT;
    }
    return FLOW_NEXT;
}

enum flow instruction_flow(const struct instruction *i)
{
    if (i->encoding != ENCODING_LEGACY || i->map > 1)
        return FLOW_NEXT;
    if (i->map == 1) {
        if (i->opcode >= 0x80 && i->opcode <= 0x8f)
            return FLOW_BRANCH;
        switch (i->opcode) {
        case 0x05: return FLOW_CALL_INDIRECT; /* syscall */
        case 0x0b:                            /* ud2, ud1, ud0 */
        case 0xb9:
        case 0xff: return FLOW_END;
        }
        return FLOW_NEXT;
    }
    if (i->opcode >= 0x70 && i->opcode <= 0x7f)
        return FLOW_BRANCH;
    switch (i->opcode) {
    case 0xe8: return FLOW_CALL;
    case 0xe9:
    case 0xeb: return FLOW_JUMP;
    case 0xe0:
    case 0xe1:
    case 0xe2:
    case 0xe3: return FLOW_BRANCH;
    case 0xc7: return i->modrm == 0xf8 ? FLOW_BRANCH : FLOW_NEXT; /* xbegin */
    case 0xcd: return FLOW_CALL_INDIRECT;
    case 0xc2:
    case 0xc3:
    case 0xca:
    case 0xcb:
    case 0xcc:
    case 0xcf:
    case 0xf4: return FLOW_END;
    case 0xff: return flow_of_ff(i);
    }
    return FLOW_NEXT;
}

int instruction_is_padding(const struct instruction *i)
{
    if (instruction_is(i, 0, 0x90)) /* otherwise xchg with %r8, or pause */
        return !(i->rex & 1) && !(i->prefixes & PREFIX_REP);
    return instruction_is(i, 1, 0x1f) || instruction_is(i, 0, 0xcc);
}
