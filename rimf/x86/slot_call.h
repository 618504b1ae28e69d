/* SPDX-License-Identifier: MIT
 *
 * rimf/x86/slot_call.h: calls through the PLT and the GOT, before and after they become direct.
 *
 *     e8 rel32         call entry           e8 rel32         call target
 *     e9 rel32         jmp  entry           e9 rel32         jmp  target
 *     0f 8x rel32      jcc  entry           0f 8x rel32      jcc  target
 *     ff 15 rel32      call *slot(%rip)     67 e8 rel32      addr32 call target
 *     ff 25 rel32      jmp  *slot(%rip)     e9 rel32 90      jmp  target; (nop)
 *
 * Each is one instruction before and after, so a thread is before or behind it while it is changed.
 * 67 has no effect on a call; linkers write the same.  The nop is never reached.  Prefixes in front
 * (bnd, notrack) mean the same to the new instruction; the analyser lists no site behind 66, which
 * would change its meaning.
 *
 * In a header, because this is done some hundred thousand times at a start.
 */
#ifndef RIMF_SLOT_CALL_H
#define RIMF_SLOT_CALL_H

#include "rimf/base/base.h"
#include "mvld/pass.h"

#define SITE_MAX 6u

struct site {
    uintptr_t address;
    uint8_t length;
    uint64_t old, made; /* the bytes, the first in the lowest byte; then zeros */
    uintptr_t target;    /* a PLT entry, or a slot */
    int to_slot;     /* the latter */
};

static inline int site_is(uint64_t code, enum mvld_reference_kind kind)
{
    switch (kind) {
    case MVLD_REFERENCE_CALL_PLT:
        return (code & 0xff) == 0xe8;
    case MVLD_REFERENCE_JUMP_PLT:
        return (code & 0xff) == 0xe9;
    case MVLD_REFERENCE_JCC_PLT:
        return (code & 0xf0ff) == 0x800f;
    case MVLD_REFERENCE_CALL_SLOT:
        return (code & 0xffff) == 0x15ff;
    case MVLD_REFERENCE_JUMP_SLOT:
        return (code & 0xffff) == 0x25ff;
    default: /* through no slot */
        return 0;
    }
}

/* Reads the instruction at `address`, of which `room` bytes may be read.  0 if it is not of this
 * kind. */
static inline int site_read(struct site *site, enum mvld_reference_kind kind, uintptr_t address,
                            size_t room)
{
    const uint8_t *code = (const uint8_t *)address;
    unsigned at; /* of the distance */
    uint32_t head, distance;

    site->address = address;
    site->length = kind == MVLD_REFERENCE_CALL_PLT || kind == MVLD_REFERENCE_JUMP_PLT ? 5 : 6;
    site->to_slot = kind == MVLD_REFERENCE_CALL_SLOT || kind == MVLD_REFERENCE_JUMP_SLOT;
    if (room < site->length)
        return 0;
    at = site->length - 4u;
    memcpy(&head, code, sizeof head);
    memcpy(&distance, code + at, sizeof distance);
    site->old = (head & ((1u << 8 * at) - 1)) | (uint64_t)distance << 8 * at;
    site->target = address + site->length + (uintptr_t)(intptr_t)(int32_t)distance;
    return site_is(site->old, kind);
}

/* The same for a call that a pass may have made direct: then to_slot is 0. */
static inline int site_read_any(struct site *site, enum mvld_reference_kind kind, uintptr_t address, size_t room)
{
    const uint8_t *at = (const uint8_t *)address;

    if (site_read(site, kind, address, room))
        return 1;
    if (!site->to_slot || room < SITE_MAX)
        return 0;
    site->to_slot = 0;
    return kind == MVLD_REFERENCE_CALL_SLOT
               ? at[0] == 0x67 && at[1] == 0xe8
               : at[5] == 0x90 && site_read(site, MVLD_REFERENCE_JUMP_PLT, address, room);
}

/* Makes the instruction that calls `target`.  0 if that is out of reach. */
static inline int site_make(struct site *site, uintptr_t target)
{
    unsigned at = site->length - 4u; /* of the distance */
    uint64_t opcode = site->old & ((1u << 8 * at) - 1), behind = 0;
    intptr_t distance;

    if (site->to_slot && opcode == 0x15ff) { /* call *slot */
        opcode = 0xe867;
    } else if (site->to_slot) { /* jmp *slot */
        opcode = 0xe9;
        at = 1;
        behind = 0x90;
    }
    distance = (intptr_t)(target - (site->address + at + 4));
    site->made = opcode | (uint64_t)(uint32_t)distance << 8 * at | behind << 40;
    return (int32_t)distance == distance;
}

#endif
