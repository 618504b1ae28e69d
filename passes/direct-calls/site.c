/* SPDX-License-Identifier: MIT
 *
 * site.c: decodes and encodes the instructions of site.h.
 */
#include "site.h"

#include "base.h"
#include "single.h"

static int known(uint64_t code, enum mvld_reference_kind kind)
{
    switch (kind) {
    case MVLD_REFERENCE_CALL_PLT:
    case MVLD_REFERENCE_CALL_SINGLE:
        return (code & 0xff) == 0xe8;
    case MVLD_REFERENCE_JUMP_PLT:
        return (code & 0xff) == 0xe9;
    case MVLD_REFERENCE_JCC_PLT:
        return (code & 0xf0ff) == 0x800f;
    case MVLD_REFERENCE_CALL_SLOT:
        return (code & 0xffff) == 0x15ff;
    case MVLD_REFERENCE_JUMP_SLOT:
        return (code & 0xffff) == 0x25ff;
    }
    return 0;
}

int site_read(struct site *site, enum mvld_reference_kind kind, uintptr_t address, size_t room)
{
    const uint8_t *code = (const uint8_t *)address;
    unsigned at; /* of the distance */
    uint32_t head, distance;

    site->address = address;
    site->length = kind == MVLD_REFERENCE_CALL_PLT || kind == MVLD_REFERENCE_JUMP_PLT ||
                           kind == MVLD_REFERENCE_CALL_SINGLE
                       ? 5
                       : 6;
    site->to_slot = kind == MVLD_REFERENCE_CALL_SLOT || kind == MVLD_REFERENCE_JUMP_SLOT;
    if (room < site->length)
        return 0;
    at = site->length - 4u;
    memcpy(&head, code, sizeof head);
    memcpy(&distance, code + at, sizeof distance);
    site->old = (head & ((1u << 8 * at) - 1)) | (uint64_t)distance << 8 * at;
    site->leads = address + site->length + (uintptr_t)(intptr_t)(int32_t)distance;
    return known(site->old, kind);
}

int site_make(struct site *site, uintptr_t target)
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

int site_inline(struct site *site, size_t room)
{
    uint8_t made[sizeof site->made] = {0};

    if (!single_read((const uint8_t *)site->leads, room, made))
        return 0;
    memcpy(&site->made, made, sizeof made);
    return 1;
}
