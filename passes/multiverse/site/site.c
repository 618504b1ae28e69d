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
        if (body->length)
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
