/* SPDX-License-Identifier: MIT
 *
 * read.c: reads of constants: a load of the variable, or the `mov` of its value.
 *
 *     8b 05 rel32                 mov    size(%rip), %eax
 *     3e b8 imm32                 mov    $4096, %eax
 *
 *     3e 3e 3e 4c 8b 05 rel32     mov    mask(%rip), %r8
 *     49 b8 imm64                 movabs $0xfff, %r8
 *
 * The register is encoded in the load, which the linker wrote and the engine keeps.
 */
#include "passes/multiverse/site/site.h"

#include "rimf/base/base.h"

/* A load of a register, after prefixes without effect. */
struct load {
    uint8_t rex, wide, opcode[2]; /* 8b; 0f b6 … */
    uint8_t modrm, modrm_at;      /* its offset */
};

/* Returns 1 if the code, of which `room` bytes may be read, begins like a load. */
static int read_load(const uint8_t *code, size_t room, struct load *out)
{
    size_t at = 0;

    *out = (struct load){0};
    while (at < room && code[at] == 0x3e) /* ds */
        at++;
    if (at < room && (code[at] & 0xf0) == 0x40) {
        out->rex = code[at++];
        out->wide = out->rex & 8;
    }
    if (at < room)
        out->opcode[0] = code[at++];
    if (at < room && out->opcode[0] == 0x0f)
        out->opcode[1] = code[at++];
    if (at == room)
        return 0;
    out->modrm_at = (uint8_t)at;
    out->modrm = code[at];
    return 1;
}

/* The number of bytes that it reads; 0 if it is no load of a constant. */
static unsigned load_width(const struct load *load)
{
    if (load->opcode[0] == 0x8b)
        return load->wide ? 8 : 4;
    if (load->opcode[0] != 0x0f || load->wide)
        return 0;
    switch (load->opcode[1]) {
    case 0xb6: case 0xbe:
        return 1;
    case 0xb7: case 0xbf:
        return 2;
    }
    return 0;
}

/* The length of the operand at its ModRM, of which at most `room` bytes may be read; 0: another
 * form.  RIP-relative: *rip is set. */
static size_t operand_length(const uint8_t *at, size_t room, int *rip)
{
    uint8_t mode = at[0] >> 6, base = at[0] & 7;
    size_t length = 1;

    *rip = mode == 0 && base == 5;
    if (mode > 2)
        return 0;
    if (base == 4) { /* SIB: (%r12) */
        if (room < 2 || (at[1] & 0x38) != 0x20 || ((at[1] & 7) == 5 && mode == 0))
            return 0;
        length++;
    }
    length += *rip || mode == 2 ? 4 : mode; /* disp32: 300(%rbx); disp8: 8(%rbx) */
    return length <= room ? length : 0;
}

/* Bytes of the immediate's `mov`. */
static unsigned immediate_length(const struct load *load)
{
    return load->wide ? 10 : 5 + (load->rex & 4 ? 1 : 0);
}

int mv_read_decode(const uint8_t *code, size_t room, uintptr_t address, struct mv_decoded *out)
{
    struct load load;
    unsigned width = read_load(code, room, &load) ? load_width(&load) : 0;
    size_t length;
    int32_t distance;
    int rip;

    if (!width || load.rex & 2) /* an index */
        return 0;
    length = operand_length(code + load.modrm_at, room - load.modrm_at, &rip);
    if (!length)
        return 0;
    length += load.modrm_at;
    if (length < immediate_length(&load) || length > MV_SITE_MAX)
        return 0;
    *out = (struct mv_decoded){.kind = MV_READ, .length = (uint8_t)length, .width = (uint8_t)width};
    if (rip) {
        memcpy(&distance, code + length - 4, sizeof distance);
        out->target = address + length + (uintptr_t)(intptr_t)distance;
    }
    return 1;
}

void mv_read_encode(const uint8_t *code, unsigned length, uint64_t value, uint8_t *out)
{
    struct load load;
    unsigned at, n;

    read_load(code, length, &load);
    n = immediate_length(&load);
    switch (load_width(&load)) { /* what the register would hold */
    case 1:
        value = load.opcode[1] == 0xbe ? (uint64_t)(int8_t)value : (uint8_t)value;
        break;
    case 2:
        value = load.opcode[1] == 0xbf ? (uint64_t)(int16_t)value : (uint16_t)value;
        break;
    }
    for (at = 0; at < length - n; at++)
        out[at] = 0x3e;
    if (n != 5) /* REX.R of the load is REX.B here */
        out[at++] = (uint8_t)(0x40 | load.wide | (load.rex & 4) >> 2);
    out[at++] = (uint8_t)(0xb8 | (load.modrm >> 3 & 7)); /* mov $imm, register */
    memcpy(out + at, &value, length - at);
}
