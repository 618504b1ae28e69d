/* SPDX-License-Identifier: MIT
 *
 * site.c: decodes and encodes call sites and entry pads.
 */
#include "site.h"

#include "base.h"

const uint8_t mv_pad_nop[MV_PAD_SIZE] = {0x0f, 0x1f, 0x44, 0x00, 0x00}; /* nopl 0(%rax,%rax,1) */

/* nopl 0(%rax,%rax,1)      0f 1f 44 00 00
 * nopw 0(%rax,%rax,1)   66 0f 1f 44 00 00 */
static const uint8_t nop_6[MV_SITE_MAX] = {0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00};

static uintptr_t relative(const uint8_t *field, uintptr_t next)
{
    int32_t distance;

    memcpy(&distance, field, sizeof distance);
    return next + (uintptr_t)(intptr_t)distance;
}

static int put_relative(uint8_t *field, uintptr_t next, uintptr_t target)
{
    intptr_t distance = (intptr_t)(target - next);
    int32_t narrow = (int32_t)distance;

    if (narrow != distance)
        return 0;
    memcpy(field, &narrow, sizeof narrow);
    return 1;
}

static int found(struct mv_decoded *out, enum mv_site_kind kind, unsigned length, uintptr_t target)
{
    out->kind = kind;
    out->length = (uint8_t)length;
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
    case 0xe9: /* jmp rel32: a nop that the linker left behind it is never reached */
        return found(out, MV_JUMP, 5, relative(code + 1, address + 5));
    case 0xeb: /* jmp rel8; int3; int3; int3 */
        if (code[2] != 0xcc || code[3] != 0xcc || code[4] != 0xcc)
            return 0;
        return found(out, MV_JUMP_SHORT, 5, address + 2 + (uintptr_t)(intptr_t)(int8_t)code[1]);
    }
    if (room < MV_SITE_MAX)
        return 0;
    if (code[0] == 0x67 && code[1] == 0xe8) /* addr32 call rel32 */
        return found(out, MV_CALL_RELAXED, 6, relative(code + 2, address + 6));
    if (code[0] == 0xff && code[1] == 0x15) /* call *rel32(%rip) */
        return found(out, MV_CALL_SLOT, 6, relative(code + 2, address + 6));
    if (code[0] == 0xff && code[1] == 0x25) /* jmp *rel32(%rip) */
        return found(out, MV_JUMP_SLOT, 6, relative(code + 2, address + 6));
    return 0;
}

/* A body instead of the call.  1 when it fits. */
static int encode_body(int jump, unsigned length, const struct mv_inline *body, uint8_t *out)
{
    if (!body->usable)
        return 0;
    if (jump) { /* the body is followed by `ret`: only when it is that alone */
        if (body->length)
            return 0;
        memset(out, 0xcc, length); /* int3, never reached */
        out[0] = 0xc3;             /* ret */
        return 1;
    }
    if (!body->length) {
        memcpy(out, length == 6 ? nop_6 : mv_pad_nop, length);
        return 1;
    }
    if (body->length > length)
        return 0;
    /* 3e is the ds segment override, which 64-bit code ignores. */
    memset(out, 0x3e, length - body->length);
    memcpy(out + length - body->length, body->bytes, body->length);
    return 1;
}

int mv_site_encode(enum mv_site_kind kind, unsigned length, uintptr_t address, uintptr_t target,
                   const struct mv_inline *body, uint8_t *out)
{
    int jump = mv_site_is_jump(kind);

    if (encode_body(jump, length, body, out))
        return 1;
    if (jump) { /* jmp rel32; [nop] */
        out[0] = 0xe9;
        if (length == 6)
            out[5] = 0x90;
        return put_relative(out + 1, address + 5, target);
    }
    if (length == 6) { /* addr32 call rel32 */
        out[0] = 0x67;
        out[1] = 0xe8;
        return put_relative(out + 2, address + 6, target);
    }
    out[0] = 0xe8; /* call rel32 */
    return put_relative(out + 1, address + 5, target);
}

int mv_pad_encode(uintptr_t address, uintptr_t target, uint8_t *out)
{
    out[0] = 0xe9; /* jmp rel32 */
    return put_relative(out + 1, address + 5, target);
}
