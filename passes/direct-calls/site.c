/* SPDX-License-Identifier: MIT
 *
 * site.c: decodes and encodes the five instructions of site.h.
 */
#include "site.h"

#include "base.h"

static int known(const uint8_t *code, enum mvld_reference_kind kind)
{
    switch (kind) {
    case MVLD_REFERENCE_CALL_PLT:
        return code[0] == 0xe8;
    case MVLD_REFERENCE_JUMP_PLT:
        return code[0] == 0xe9;
    case MVLD_REFERENCE_JCC_PLT:
        return code[0] == 0x0f && (code[1] & 0xf0) == 0x80;
    case MVLD_REFERENCE_CALL_SLOT:
        return code[0] == 0xff && code[1] == 0x15;
    case MVLD_REFERENCE_JUMP_SLOT:
        return code[0] == 0xff && code[1] == 0x25;
    }
    return 0;
}

int site_read(struct site *site, enum mvld_reference_kind kind, uintptr_t address, size_t room)
{
    const uint8_t *code = (const uint8_t *)address;
    int32_t distance;

    site->address = address;
    site->length = kind == MVLD_REFERENCE_CALL_PLT || kind == MVLD_REFERENCE_JUMP_PLT ? 5 : 6;
    site->to_slot = kind == MVLD_REFERENCE_CALL_SLOT || kind == MVLD_REFERENCE_JUMP_SLOT;
    if (room < site->length || !known(code, kind))
        return 0;
    memcpy(site->old, code, site->length);
    memcpy(&distance, site->old + site->length - 4, sizeof distance);
    site->leads = address + site->length + (uintptr_t)(intptr_t)distance;
    return 1;
}

int site_make(struct site *site, uintptr_t target)
{
    unsigned at = site->length - 4u; /* of the distance */
    intptr_t distance;
    int32_t stored;

    memcpy(site->made, site->old, site->length);
    if (site->to_slot && site->old[1] == 0x15) { /* call *slot */
        site->made[0] = 0x67;
        site->made[1] = 0xe8;
    } else if (site->to_slot) { /* jmp *slot */
        site->made[0] = 0xe9;
        site->made[5] = 0x90;
        at = 1;
    }
    distance = (intptr_t)(target - (site->address + at + 4));
    stored = (int32_t)distance;
    memcpy(site->made + at, &stored, sizeof stored);
    return stored == distance;
}
