/* SPDX-License-Identifier: MIT
 *
 * site.c: decodes and encodes call sites and entry pads.
 */
#include "passes/multiverse/site/site.h"

#include "rimf/base/base.h"
#include "rimf/x86/decode.h"

#define NOP_6 0x0000441f0f66u /* 66 0f 1f 44 00 00  nopw 0(%rax,%rax,1) */

static uintptr_t relative(const uint8_t *field, uintptr_t next)
{
    return next + (uintptr_t)distance_at(field);
}

static int found(struct mv_decoded *out, enum mv_site_kind kind, unsigned length, uintptr_t target)
{
    out->kind = kind;
    out->length = (uint8_t)length;
    out->width = 0;
    out->target = target;
    return 1;
}

int mv_site_decode(const uint8_t *code, size_t room, uintptr_t address, struct mv_decoded *out)
{
    if (room < MV_SITE_MIN)
        return 0;
    switch (code[0]) {
    case 0xe8: /* call rel32 */
        return found(out, MV_CALL, 5, relative(code + 1, address + 5));
    case 0xe9: /* jmp rel32; a linker's nop behind it is never reached */
        return found(out, MV_JUMP, 5, relative(code + 1, address + 5));
    case 0xeb: /* jmp rel8; int3; int3; int3 */
        if (code[2] != 0xcc || code[3] != 0xcc || code[4] != 0xcc)
            return 0;
        return found(out, MV_JUMP_SHORT, 5, address + 2 + (uintptr_t)(intptr_t)(int8_t)code[1]);
    }
    if (mv_read_decode(code, room, address, out))
        return 1;
    if (room < 6)
        return 0;
    if ((code[0] == 0x67 || code[0] == 0x40) && code[1] == 0xe8) /* addr32 or rex call rel32 */
        return found(out, MV_CALL_RELAXED, 6, relative(code + 2, address + 6));
    if (code[0] == 0xff && code[1] == 0x15) /* call *rel32(%rip) */
        return found(out, MV_CALL_SLOT, 6, relative(code + 2, address + 6));
    if (code[0] == 0xff && code[1] == 0x25) /* jmp *rel32(%rip) */
        return found(out, MV_JUMP_SLOT, 6, relative(code + 2, address + 6));
    return 0;
}

static uint64_t nop(unsigned length)
{
    return length == 6 ? NOP_6 : MV_PAD_NOP;
}

int mv_body_encode(int jump, unsigned length, const struct mv_inline *body, uint64_t *out)
{
    unsigned prefixes = length - body->length;

    if (jump) { /* the body is followed by `ret`: only if it is nothing else */
        if (body->length || body->thunk)
            return 0;
        *out = 0xccccccccccc3u & UINT64_MAX >> (64 - 8 * length); /* ret; int3 … never reached */
        return 1;
    }
    if (body->length > length)
        return 0;
    if (!body->length)
        *out = nop(length);
    else if (!prefixes)
        *out = body->bytes;
    else /* 3e is the ds segment override, which 64-bit code ignores */
        *out = body->bytes << 8 * prefixes | (0x3e3e3e3e3e3eu & UINT64_MAX >> (64 - 8 * prefixes));
    return 1;
}

int mv_site_encode(enum mv_site_kind kind, unsigned length, uintptr_t address, uintptr_t target,
                   const struct mv_inline *body, uint64_t *out)
{
    struct mv_lead lead = mv_site_lead(kind, length);

    if (body->usable && mv_body_encode(mv_site_is_jump(kind), length, body, out))
        return 1;
    return mv_put_relative(lead.opcode, lead.at, address + lead.next, target, out);
}

int mv_pad_encode(unsigned length, uintptr_t address, uintptr_t target, uint64_t *out)
{
    struct mv_lead lead = mv_site_lead(MV_JUMP, length);

    if (target == address + length) {
        *out = nop(length);
        return 1;
    }
    return mv_put_relative(lead.opcode, lead.at, address + lead.next, target, out);
}

/* ---- reads of constants */

/* A load of the variable, or the `mov` of its value.
 *
 *     8b 05 rel32                 mov    size(%rip), %eax
 *     3e b8 imm32                 mov    $4096, %eax
 *
 *     3e 3e 3e 4c 8b 05 rel32     mov    mask(%rip), %r8
 *     49 b8 imm64                 movabs $0xfff, %r8
 *
 * The register is encoded in the load, which the linker wrote and the engine keeps.
 */

/* Decodes the instruction after prefixes without effect; returns its offset. */
static size_t read_load(const uint8_t *code, size_t room, struct instruction *out)
{
    size_t at = 0;

    while (at < room && code[at] == 0x3e) /* ds */
        at++;
    decode(code + at, room - at, out);
    return at;
}

/* The number of bytes that it reads; 0 if it is no load of a constant. */
static unsigned load_width(const struct instruction *load)
{
    if (load->prefixes || load->rex & 2) /* an index */
        return 0;
    if (instruction_is(load, 0, 0x8b))
        return load->rex & 8 ? 8 : 4;
    if (load->encoding != ENCODING_LEGACY || load->map != 1 || load->rex & 8)
        return 0;
    switch (load->opcode) {
    case 0xb6: case 0xbe:
        return 1;
    case 0xb7: case 0xbf:
        return 2;
    }
    return 0;
}

/* size(%rip), 8(%rbx), 300(%rbx), or (%r12), which needs a SIB byte. */
static int is_in_place(const uint8_t *code, const struct instruction *load)
{
    uint8_t sib = 0x20;

    if (load->modrm >= 0xc0) /* a register, which no SIB byte follows */
        return 0;
    if ((load->modrm & 7) == 4)
        sib = code[load->displacement_at - 1];
    return (sib & 0x38) == 0x20 && ((sib & 7) != 5 || load->modrm >= 0x40);
}

/* Bytes of the immediate's `mov`. */
static unsigned immediate_length(const struct instruction *load)
{
    return load->rex & 8 ? 10 : 5 + (load->rex & 4 ? 1 : 0);
}

int mv_read_decode(const uint8_t *code, size_t room, uintptr_t address, struct mv_decoded *out)
{
    struct instruction load;
    size_t at = read_load(code, room, &load), length = at + load.length;
    unsigned width = load.length ? load_width(&load) : 0;

    if (!width || !is_in_place(code + at, &load) || length < immediate_length(&load) || length > MV_SITE_MAX)
        return 0;
    *out = (struct mv_decoded){.kind = MV_READ, .length = (uint8_t)length, .width = (uint8_t)width};
    if (load.rip)
        out->target = rip_target(code + at, address + at, &load);
    return 1;
}

void mv_read_encode(const uint8_t *code, unsigned length, uint64_t value, uint8_t *out)
{
    struct instruction load;
    unsigned at, n;

    read_load(code, length, &load);
    n = immediate_length(&load);
    switch (load_width(&load)) { /* what the register would hold */
    case 1:
        value = load.opcode == 0xbe ? (uint64_t)(int8_t)value : (uint8_t)value;
        break;
    case 2:
        value = load.opcode == 0xbf ? (uint64_t)(int16_t)value : (uint16_t)value;
        break;
    }
    for (at = 0; at < length - n; at++)
        out[at] = 0x3e;
    if (n != 5) /* REX.R of the load is REX.B here */
        out[at++] = (uint8_t)(0x40 | (load.rex & 8) | (load.rex & 4) >> 2);
    out[at++] = (uint8_t)(0xb8 | modrm_reg(&load)); /* mov $imm, register */
    memcpy(out + at, &value, length - at);
}
