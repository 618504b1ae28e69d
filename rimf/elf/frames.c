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

uint64_t frame_sleb128(struct reader *r)
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
