/* SPDX-License-Identifier: MIT
 *
 * rimf/elf/frames.c: see elf/frames.h.  Nothing is read past the end of a segment, nor of a record.
 */
#include "rimf/elf/frames.h"

#include "rimf/base/base.h"

uint64_t frame_uint(struct reader *r, size_t size)
{
    uint64_t value = 0;

    if (r->bad || (size_t)(r->end - r->at) < size) {
        r->bad = 1;
        return 0;
    }
    memcpy(&value, r->at, size);
    r->at += size;
    r->address += size;
    return value;
}

uint64_t frame_uleb128(struct reader *r)
{
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t byte;

    do {
        byte = (uint8_t)frame_uint(r, 1);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
        if (shift > 70) /* more than 64 bits; otherwise a file could make each of these long */
            r->bad = 1;
    } while (byte & 0x80 && !r->bad);
    return value;
}

static uint64_t frame_sleb128(struct reader *r)
{
    const uint8_t *start = r->at;
    uint64_t value = frame_uleb128(r);
    size_t bits = 7 * (size_t)(r->at - start);

    if (!r->bad && bits < 64 && r->at[-1] & 0x40)
        value |= ~0ull << bits;
    return value;
}

uint64_t frame_encoded(struct reader *r, uint8_t how, uint64_t data)
{
    uint64_t base = r->address, value;

    switch (how & 0x0f) {
    case 0x0:
    case 0x4:
    case 0xc: value = frame_uint(r, 8); break;
    case 0x1: value = frame_uleb128(r); break;
    case 0x2: value = frame_uint(r, 2); break;
    case 0x3: value = frame_uint(r, 4); break;
    case 0x9: value = frame_sleb128(r); break;
    case 0xa: value = (uint64_t)(int64_t)(int16_t)frame_uint(r, 2); break;
    case 0xb: value = (uint64_t)(int64_t)(int32_t)frame_uint(r, 4); break;
    default: r->bad = 1; return 0;
    }
    if (!value)
        return 0;
    switch (how & 0xf0) {
    case 0x00: return value;
    case 0x10: return value + base;
    case 0x30: return value + data;
    }
    r->bad = 1; /* through a pointer, or relative to something unknown here */
    return 0;
}

struct reader frame_record(struct reader r, uint64_t *id)
{
    uint64_t length = frame_uint(&r, 4);

    r.bad |= length < 4 || length >= 0xfffffff0 || length > (uint64_t)(r.end - r.at);
    if (!r.bad)
        r.end = r.at + length;
    *id = frame_uint(&r, 4);
    return r;
}

static void read_augmentation(struct reader *r, char letter, struct cie *cie)
{
    switch (letter) {
    case 'R': cie->range_how = (uint8_t)frame_uint(r, 1); break;
    case 'L': cie->table_how = (uint8_t)frame_uint(r, 1); break;
    case 'P':
        cie->personality_how = (uint8_t)frame_uint(r, 1);
        cie->personality_at = r->address;
        cie->personality = frame_encoded(r, cie->personality_how & ~ENCODING_INDIRECT, 0);
        break;
    case 'S': cie->signal = 1; break;
    case 'B': cie->keyed = 1; break;
    default: r->bad = 1;
    }
}

#define LETTERS_MOST 8 /* of an augmentation: it is read again for each FDE, of which a file may have many */

int cie_read(struct reader r, struct cie *cie)
{
    const char *letters;
    const uint8_t *end = NULL;
    uint64_t size;

    *cie = (struct cie){.version = (uint8_t)frame_uint(&r, 1), .table_how = ENCODING_OMIT,
                        .personality_how = ENCODING_OMIT};
    letters = (const char *)r.at;
    for (int n = 0; frame_uint(&r, 1); n++)
        r.bad |= n == LETTERS_MOST;
    cie->code_alignment = frame_uleb128(&r);
    cie->data_alignment = frame_sleb128(&r);
    cie->return_address = frame_uleb128(&r);
    cie->sized = !r.bad && *letters == 'z';
    if (cie->sized) {
        size = frame_uleb128(&r);
        r.bad |= size > (uint64_t)(r.end - r.at);
        end = r.bad ? NULL : r.at + size;
        letters++;
    }
    for (; !r.bad && *letters; letters++)
        read_augmentation(&r, *letters, cie);
    cie->program = r;
    cie->whole = r.at == end;
    return r.bad ? -1 : 0;
}

/* ---- call frame programs -----------------------------------------------------------------------
 *
 * Whether a call frame program is independent of the code's address.
 *
 * Nearly every one is: it describes registers and the stack, and steps through the code by distances.
 * Exceptions are DW_CFA_set_loc, which has an address, and expressions that have one (DW_OP_addr) or start
 * from RIP.  Anything unknown may be an exception, too.
 */

/* Operands: u, s: LEB128; 1, 2, 4, 8: bytes; e: an expression; -: none.  "": unknown, or not in moved code. */
static const char *frame_operands(uint8_t code)
{
    static const char operands[][3] = {
        [0x00] = "-",                                   /* nop; set_loc has an address */
        [0x02] = "1",  [0x03] = "2",  [0x04] = "4",     /* advance_loc */
        [0x05] = "uu", [0x06] = "u",  [0x07] = "u",     /* offset, restore, undefined */
        [0x08] = "u",  [0x09] = "uu",                   /* same_value, register */
        [0x0a] = "-",  [0x0b] = "-",                    /* remember_state, restore_state */
        [0x0c] = "uu", [0x0d] = "u",  [0x0e] = "u",     /* def_cfa, _register, _offset */
        [0x0f] = "e",  [0x10] = "ue",                   /* def_cfa_expression, expression */
        [0x11] = "us", [0x12] = "us", [0x13] = "s",     /* offset, def_cfa, def_cfa_offset _sf */
        [0x14] = "uu", [0x15] = "us", [0x16] = "ue",    /* val_offset, _sf, val_expression */
        [0x2e] = "u",  [0x2f] = "uu",                   /* GNU_args_size, negative_offset */
    };
    static const char primary[4][2] = {"", "-", "u", "-"}; /* advance, offset, restore */

    if (code >> 6)
        return primary[code >> 6];
    return code < RIMF_COUNT(operands) ? operands[code] : "";
}

static const char *expression_operands(uint8_t code)
{
    static const char operands[][2] = {
        [0x06] = "-",                                           /* deref */
        [0x08] = "1", [0x09] = "1", [0x0a] = "2", [0x0b] = "2", /* constants */
        [0x0c] = "4", [0x0d] = "4", [0x0e] = "8", [0x0f] = "8", [0x10] = "u", [0x11] = "s",
        [0x12 ... 0x14] = "-", [0x15] = "1", [0x16 ... 0x17] = "-", /* dup drop over pick … */
        [0x19 ... 0x22] = "-", [0x23] = "u", [0x24 ... 0x27] = "-", /* arithmetic */
        [0x28] = "2", [0x29 ... 0x2e] = "-", [0x2f] = "2",          /* bra, comparisons, skip */
        [0x30 ... 0x4f] = "-",                                      /* small numbers */
        [0x70 ... 0x7f] = "s",                                      /* registers, without RIP */
        [0x94] = "1", [0x96] = "-",                                 /* deref_size, nop */
    };

    return code < RIMF_COUNT(operands) ? operands[code] : "";
}

static int read_operands(struct reader *r, const char *operands);

static int read_expression(struct reader *r)
{
    uint64_t size = frame_uleb128(r);
    struct reader inner = *r;

    if (r->bad || size > (uint64_t)(r->end - r->at))
        return -1;
    inner.end = r->at + size;
    while (inner.at < inner.end)
        if (read_operands(&inner, expression_operands((uint8_t)frame_uint(&inner, 1))))
            return -1;
    r->at = inner.at;
    r->address = inner.address;
    return 0;
}

static int read_operands(struct reader *r, const char *operands)
{
    if (!*operands)
        return -1;
    for (; *operands; operands++) {
        switch (*operands) {
        case 'u': frame_uleb128(r); break;
        case 's': frame_sleb128(r); break;
        case 'e':
            if (read_expression(r))
                return -1;
            break;
        case '1': case '2': case '4': case '8': frame_uint(r, (size_t)(*operands - '0')); break;
        }
    }
    return r->bad ? -1 : 0;
}

int cfa_can_move(struct reader *r)
{
    while (!r->bad && r->at < r->end)
        if (read_operands(r, frame_operands((uint8_t)frame_uint(r, 1))))
            return 0;
    return !r->bad;
}
