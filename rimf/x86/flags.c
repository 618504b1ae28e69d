/* SPDX-License-Identifier: MIT
 *
 * rimf/x86/flags.c: the effect of an instruction on the status flags (registers.h).
 *
 * A few forms write all flags; any other may leave some unchanged.  All forms that read flags are
 * listed; the few encodings newer than this list count as reading.
 */
#include "rimf/x86/registers.h"

#define BETWEEN(x, first, last) ((x) >= (first) && (x) <= (last))

enum { ADC = 2, SBB = 3, CMP = 7 }; /* operations of 00 to 3f, and of 80 to 83 */

static unsigned arithmetic(unsigned operation)
{
    return FLAGS_WRITTEN | (operation == ADC || operation == SBB ? FLAGS_READ : 0);
}

/* c0, c1, d0 to d3.  A shift by zero leaves them unchanged, and a rotation leaves most of them. */
static unsigned shift(const uint8_t *code, const struct instruction *i)
{
    unsigned operation = modrm_reg(i);

    if (operation == 2 || operation == 3) /* rcl, rcr */
        return FLAGS_READ;
    if (operation < 4 || i->opcode >= 0xd2)
        return 0;
    return i->opcode >= 0xd0 || code[i->immediate_at] & 0x1f ? FLAGS_WRITTEN : 0;
}

static unsigned one_byte(const uint8_t *code, const struct instruction *i)
{
    unsigned op = i->opcode;

    if (op < 0x40 && (op & 7) < 6)
        return arithmetic(op >> 3);
    if (BETWEEN(op, 0x80, 0x83))
        return arithmetic(modrm_reg(i));
    if (op == 0x84 || op == 0x85 || op == 0xa8 || op == 0xa9) /* test */
        return FLAGS_WRITTEN;
    if (op == 0xf6 || op == 0xf7) /* test, test, not, neg, mul … */
        return modrm_reg(i) < 4 && modrm_reg(i) != 2 ? FLAGS_WRITTEN : 0;
    if (op == 0xc0 || op == 0xc1 || BETWEEN(op, 0xd0, 0xd3))
        return shift(code, i);
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
        return one_byte(code, i);
    if (i->map == 1)
        return BETWEEN(i->opcode, 0x40, 0x4f) || BETWEEN(i->opcode, 0x80, 0x9f) || i->opcode == 0x05
                   ? FLAGS_READ : 0; /* cmov, jcc, setcc, syscall */
    return i->map == 2 && i->opcode == 0xf6 ? FLAGS_READ : 0; /* adcx, adox */
}
