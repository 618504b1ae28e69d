/* SPDX-License-Identifier: MIT
 *
 * rimf/x86/registers.c: see registers.h.
 *
 * An opcode's operands have one of a few forms.  An opcode of no known form counts as reading
 * everything.
 */
#include "rimf/x86/registers.h"

#define BIT(n) ((uint16_t)(1u << (n)))
#define BETWEEN(x, first, last) ((x) >= (first) && (x) <= (last))

struct operands {
    const struct instruction *i;
    struct registers r;
};

static int is_narrow(const struct instruction *i)
{
    return i->prefixes & PREFIX_OPERAND && !(i->rex & 8);
}

static void reads(struct operands *o, unsigned n)
{
    o->r.read |= BIT(n);
}

static void writes(struct operands *o, unsigned n)
{
    if (is_narrow(o->i))
        reads(o, n);
    else
        o->r.written |= BIT(n);
}

/* Without REX, numbers four to seven are the second bytes of the first four registers. */
static unsigned byte_of(const struct instruction *i, unsigned n)
{
    return !i->rex && n >= 4 && n < 8 ? n - 4 : n;
}

static void reads_byte(struct operands *o, unsigned n)
{
    o->r.bytes_read |= BIT(byte_of(o->i, n));
}

static void writes_byte(struct operands *o, unsigned n)
{
    o->r.bytes_written |= BIT(byte_of(o->i, n));
}

/* The second operand, if it is a register. */
static void with_rm(struct operands *o, void (*use)(struct operands *, unsigned))
{
    if (operand_is_register(o->i))
        use(o, operand_rm(o->i));
}

static void with_both(struct operands *o, void (*reg)(struct operands *, unsigned),
                      void (*rm)(struct operands *, unsigned))
{
    reg(o, operand_reg(o->i));
    with_rm(o, rm);
}

static void with_everything(struct operands *o)
{
    o->r.read = REGISTERS_ALL;
}

/* For VEX and similar the bit that extends a number is not available: both registers count as read. */
static void read_address(struct operands *o, const uint8_t *code)
{
    const struct instruction *i = o->i;
    unsigned either = i->encoding == ENCODING_LEGACY ? 0 : 8, sib, base, index;

    if (!i->has_modrm || i->modrm >= 0xc0 || i->rip)
        return;
    base = operand_rm(i);
    if ((i->modrm & 7) == 4) {
        sib = code[i->displacement_at - 1];
        index = (sib >> 3 & 7u) | (i->rex & 2u) << 2;
        if (index != RSP || either)
            o->r.read |= BIT(index) | BIT(index | either);
        if ((sib & 7) == 5 && i->modrm < 0x40)
            return;
        base = (sib & 7u) | (i->rex & 1u) << 3;
    }
    o->r.read |= BIT(base) | BIT(base | either);
}

/* ---- one byte --------------------------------------------------------------------------- */

/* add, or, adc, sbb, and, sub, xor, cmp.  xor, sub and sbb of a register with itself do not depend
 * on its value. */
static void arithmetic(struct operands *o)
{
    const struct instruction *i = o->i;
    unsigned operation = i->opcode >> 3;
    int itself = operand_is_register(i) && operand_reg(i) == operand_rm(i) &&
                 (operation == 3 || operation == 5 || operation == 6);

    switch (i->opcode & 7) {
    case 0:
    case 2:
        with_both(o, itself ? writes_byte : reads_byte, itself ? writes_byte : reads_byte);
        break;
    case 1:
    case 3:
        with_both(o, itself ? writes : reads, itself ? writes : reads);
        break;
    case 4: reads_byte(o, RAX); break;
    case 5: reads(o, RAX); break;
    }
}

static void string_operation(struct operands *o)
{
    unsigned operation = o->i->opcode & 0xfe;

    if (operation != 0xaa && operation != 0xae)
        reads(o, RSI);
    if (operation != 0xac)
        reads(o, RDI);
    if (operation >= 0xaa)
        reads(o, RAX);
    if (o->i->prefixes & (PREFIX_REP | PREFIX_REPNE))
        reads(o, RCX);
}

/* f6, f7: test, not, neg; mul, imul, div, idiv. */
static void multiply(struct operands *o)
{
    unsigned operation = modrm_reg(o->i);
    int byte = o->i->opcode == 0xf6;

    with_rm(o, byte ? reads_byte : reads);
    if (operation < 4)
        return;
    reads(o, RAX);
    if (byte)
        return;
    if (operation < 6)
        writes(o, RDX);
    else
        reads(o, RDX);
}

/* 84 to 8f. */
static void move(struct operands *o)
{
    switch (o->i->opcode) {
    case 0x84:
    case 0x86: with_both(o, reads_byte, reads_byte); break;
    case 0x85:
    case 0x87: with_both(o, reads, reads); break;
    case 0x88: with_both(o, reads_byte, writes_byte); break;
    case 0x89: with_both(o, reads, writes); break;
    case 0x8a: with_both(o, writes_byte, reads_byte); break;
    case 0x8b: with_both(o, writes, reads); break;
    case 0x8d: writes(o, operand_reg(o->i)); break;
    case 0x8f: with_rm(o, writes); break;
    default: with_rm(o, reads);
    }
}

/* The number is in the opcode. */
static unsigned opcode_register(const struct instruction *i)
{
    return (i->opcode & 7u) | (i->rex & 1u) << 3;
}

static void one_byte(struct operands *o)
{
    const struct instruction *i = o->i;
    unsigned op = i->opcode;

    if (op < 0x40) {
        arithmetic(o);
    } else if (BETWEEN(op, 0x50, 0x57) || BETWEEN(op, 0x91, 0x97) || (op == 0x90 && i->rex & 1)) {
        reads(o, opcode_register(i));
        if (op >= 0x90)
            reads(o, RAX);
    } else if (BETWEEN(op, 0x58, 0x5f) || BETWEEN(op, 0xb8, 0xbf)) {
        writes(o, opcode_register(i));
    } else if (BETWEEN(op, 0xb0, 0xb7)) {
        writes_byte(o, opcode_register(i));
    } else if (op == 0x63 || op == 0x69 || op == 0x6b) {
        with_both(o, writes, reads);
    } else if (BETWEEN(op, 0x80, 0x83) || op == 0xc0 || op == 0xc1 || BETWEEN(op, 0xd0, 0xd3) || op >= 0xfe) {
        with_rm(o, op & 1 || op == 0x82 ? reads : reads_byte);
        if (op == 0xd2 || op == 0xd3)
            reads_byte(o, RCX);
    } else if (BETWEEN(op, 0x84, 0x8f)) {
        move(o);
    } else if (op == 0x98 || op == 0x9e || op == 0x9f || BETWEEN(op, 0xa0, 0xa3) || op == 0xa8 || op == 0xa9) {
        reads(o, RAX);
    } else if (op == 0x99) {
        reads(o, RAX);
        writes(o, RDX);
    } else if (BETWEEN(op, 0xa4, 0xaf)) {
        string_operation(o);
    } else if ((op == 0xc6 || op == 0xc7) && i->modrm == 0xf8) { /* xabort, xbegin */
        with_everything(o);
    } else if (op == 0xc6 || op == 0xc7) {
        with_rm(o, op == 0xc6 ? writes_byte : writes);
    } else if (op == 0xc9) {
        reads(o, RBP);
    } else if (BETWEEN(op, 0xd8, 0xdf)) {
        if (op == 0xdf && i->modrm == 0xe0) /* fnstsw %ax */
            reads(o, RAX);
    } else if (BETWEEN(op, 0xe0, 0xe3)) {
        reads(o, RCX);
    } else if (op == 0xf6 || op == 0xf7) {
        multiply(o);
    } else if (i->odd) {
        with_everything(o);
    } /* otherwise it has no register: push of a number, branches, returns, flags, NOPs */
}

/* ---- two bytes, and more ------------------------------------------------------------------- */

/* Whether its registers are vector registers, with VEX and without. */
static int is_vector(const struct instruction *i)
{
    unsigned op = i->opcode;

    switch (i->map) {
    case 1:
        return BETWEEN(op, 0x10, 0x17) || BETWEEN(op, 0x28, 0x29) || BETWEEN(op, 0x2e, 0x2f) ||
               BETWEEN(op, 0x51, 0x6d) || BETWEEN(op, 0x6f, 0x77) || BETWEEN(op, 0x7c, 0x7d) ||
               op == 0x7f || op == 0xc2 || op == 0xc6 || BETWEEN(op, 0xd0, 0xd6) ||
               BETWEEN(op, 0xd8, 0xf6) || BETWEEN(op, 0xf8, 0xfe);
    case 2: return i->encoding != ENCODING_EVEX && op < 0x42;
    case 3: return i->encoding != ENCODING_EVEX && (BETWEEN(op, 0x08, 0x0f) || BETWEEN(op, 0x40, 0x44));
    }
    return 0;
}

static void two_bytes(struct operands *o)
{
    const struct instruction *i = o->i;
    unsigned op = i->opcode;

    if (op == 0x05 || op == 0x0b || BETWEEN(op, 0x80, 0x8f)) {
        return;
    } else if (op == 0x31) { /* rdtsc */
        writes(o, RAX);
        writes(o, RDX);
    } else if (op == 0xa2) { /* cpuid */
        o->r.read |= BIT(RAX) | BIT(RCX);
        o->r.written |= BIT(RBX) | BIT(RDX);
    } else if (BETWEEN(op, 0x40, 0x4f) || BETWEEN(op, 0xa3, 0xa5) || BETWEEN(op, 0xab, 0xad) || op == 0xaf ||
               op == 0xb1 || op == 0xb3 || BETWEEN(op, 0xbb, 0xbd) || op == 0xc1 || op == 0xc3) {
        with_both(o, reads, reads); /* cmov, bt, shld, imul, bsf … */
        if (op == 0xa5 || op == 0xad)
            reads_byte(o, RCX);
        if (op == 0xb1)
            reads(o, RAX);
    } else if (op == 0xb0 || op == 0xc0) {
        with_both(o, reads_byte, reads_byte);
        reads_byte(o, RAX);
    } else if (BETWEEN(op, 0x90, 0x9f)) { /* setcc */
        with_rm(o, writes_byte);
    } else if (op == 0xb6 || op == 0xbe) { /* movzx, movsx */
        with_both(o, writes, reads_byte);
    } else if (op == 0xb7 || op == 0xbf || op == 0xb8) {
        with_both(o, writes, reads);
    } else if (op == 0xba || op == 0x2a || op == 0x6e || op == 0xc4) {
        with_rm(o, reads);
    } else if (op == 0x7e) { /* 66 selects the vector here, and below; f3: a vector alone */
        if (operand_is_register(i) && !(i->prefixes & PREFIX_REP))
            o->r.written |= BIT(operand_rm(i));
    } else if (op == 0x50 || op == 0xc5 || op == 0xd7 ||
               ((op == 0x2c || op == 0x2d) && i->prefixes & (PREFIX_REP | PREFIX_REPNE))) { /* else it writes MMX */
        o->r.written |= BIT(operand_reg(i));
    } else if (BETWEEN(op, 0xc8, 0xcf)) {
        reads(o, opcode_register(i));
    } else if (op == 0xae && (!operand_is_register(i) ? modrm_reg(i) < 4
                                                       : !(i->prefixes & (PREFIX_OPERAND | PREFIX_REPNE | PREFIX_REP)))) {
        return; /* fences, mxcsr; a prefix selects tpause, umwait, rdfsbase … */
    } else {
        with_everything(o);
    }
}

/* Long NOPs, prefetches and endbr64 name registers without using them. */
static int is_hint(const struct instruction *i)
{
    return i->map == 1 && (i->opcode == 0x0d || BETWEEN(i->opcode, 0x18, 0x1f)) &&
           (!operand_is_register(i) || !(i->prefixes & PREFIX_REP) || i->modrm == 0xfa);
}

struct registers registers_of(const uint8_t *code, const struct instruction *i)
{
    struct operands o = {.i = i};

    if (i->encoding == ENCODING_LEGACY && is_hint(i))
        return o.r;
    read_address(&o, code);
    if (i->encoding == ENCODING_XOP || (i->map > 1 && !is_vector(i)))
        with_everything(&o);
    else if (is_vector(i))
        return o.r;
    else if (i->encoding != ENCODING_LEGACY)
        with_everything(&o);
    else if (i->map == 1)
        two_bytes(&o);
    else
        one_byte(&o);
    return o.r;
}

/* ---- status flags ---------------------------------------------------------------------------
 *
 * A few forms write all flags; any other may leave some unchanged.  All forms that read flags are listed; the few
 * encodings newer than this list count as reading.
 */

enum { ADC = 2, SBB = 3, CMP = 7 }; /* operations of 00 to 3f, and of 80 to 83 */

static unsigned flags_of_arithmetic(unsigned operation)
{
    return FLAGS_WRITTEN | (operation == ADC || operation == SBB ? FLAGS_READ : 0);
}

/* c0, c1, d0 to d3.  A shift by zero leaves them unchanged, and a rotation leaves most of them. */
static unsigned flags_of_shift(const uint8_t *code, const struct instruction *i)
{
    unsigned operation = modrm_reg(i);

    if (operation == 2 || operation == 3) /* rcl, rcr */
        return FLAGS_READ;
    if (operation < 4 || i->opcode >= 0xd2)
        return 0;
    return i->opcode >= 0xd0 || code[i->immediate_at] & 0x1f ? FLAGS_WRITTEN : 0;
}

static unsigned flags_of_byte(const uint8_t *code, const struct instruction *i)
{
    unsigned op = i->opcode;

    if (op < 0x40 && (op & 7) < 6)
        return flags_of_arithmetic(op >> 3);
    if (BETWEEN(op, 0x80, 0x83))
        return flags_of_arithmetic(modrm_reg(i));
    if (op == 0x84 || op == 0x85 || op == 0xa8 || op == 0xa9) /* test */
        return FLAGS_WRITTEN;
    if (op == 0xf6 || op == 0xf7) /* test, test, not, neg, mul … */
        return modrm_reg(i) < 4 && modrm_reg(i) != 2 ? FLAGS_WRITTEN : 0;
    if (op == 0xc0 || op == 0xc1 || BETWEEN(op, 0xd0, 0xd3))
        return flags_of_shift(code, i);
    if (op == 0xda || op == 0xdb) /* fcmov */
        return FLAGS_READ;
    return BETWEEN(op, 0x70, 0x7f) || op == 0x9c || op == 0x9f || op == 0xe0 || op == 0xe1 || op == 0xf5
               ? FLAGS_READ : 0; /* jcc; pushf, lahf, loopne, loope, cmc */
}

unsigned flags_of(const uint8_t *code, const struct instruction *i)
{
    if (i->odd || (i->encoding == ENCODING_EVEX && i->map > 3))
        return FLAGS_READ;
    if (i->map == 1 && BETWEEN(i->opcode, 0x2e, 0x2f)) /* ucomis, comis */
        return FLAGS_WRITTEN;
    if (i->encoding != ENCODING_LEGACY)
        return 0;
    if (i->map == 0)
        return flags_of_byte(code, i);
    if (i->map == 1)
        return BETWEEN(i->opcode, 0x40, 0x4f) || BETWEEN(i->opcode, 0x80, 0x9f) || i->opcode == 0x05
                   ? FLAGS_READ : 0; /* cmov, jcc, setcc, syscall */
    return i->map == 2 && i->opcode == 0xf6 ? FLAGS_READ : 0; /* adcx, adox */
}
