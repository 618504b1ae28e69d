/* SPDX-License-Identifier: MIT
 *
 * The instructions become what emit/calls.h says, as far as a distance reaches.  A failure
 * means that a call would go somewhere else, or run over its end.
 */
#include "rimf/emit/calls.h"

#include "../../../check.h"

#include <string.h>

static uint8_t code[16];

static void becomes(enum mvld_reference_kind kind, const char *old, const char *made,
                    size_t length, unsigned at)
{
    uintptr_t address = (uintptr_t)code;
    int32_t distance = 0x12345678, stored;
    uint8_t bytes[8];
    struct site site;

    memset(code, 0xcc, sizeof code);
    memcpy(code, old, length - 4);
    memcpy(code + length - 4, &distance, 4);
    CHECK(site_read(&site, kind, address, length));
    CHECK(site.length == length && site.target == address + length + 0x12345678);
    CHECK(!site_read(&site, kind, address, length - 1));
    CHECK(site_read(&site, kind, address, sizeof code));
    memcpy(bytes, &site.old, sizeof bytes);
    CHECK(memcmp(bytes, code, length) == 0 && site.old >> 8 * length == 0);
    for (int sign = -1; sign <= 1; sign += 2) {
        intptr_t far = sign < 0 ? INT32_MIN : INT32_MAX;
        uintptr_t next = address + at + 4;

        CHECK(site_make(&site, next + (uintptr_t)far));
        memcpy(bytes, &site.made, sizeof bytes);
        CHECK(memcmp(bytes, made, at) == 0);
        memcpy(&stored, bytes + at, 4);
        CHECK(stored == far);
        CHECK(length == at + 4 || bytes[at + 4] == 0x90);
        CHECK(site.made >> 8 * length == 0);
        CHECK(!site_make(&site, next + (uintptr_t)(far + sign)));
    }
}

int main(void)
{
    struct site site;

    becomes(MVLD_REFERENCE_CALL_PLT, "\xe8", "\xe8", 5, 1);
    becomes(MVLD_REFERENCE_JUMP_PLT, "\xe9", "\xe9", 5, 1);
    becomes(MVLD_REFERENCE_JCC_PLT, "\x0f\x84", "\x0f\x84", 6, 2);
    becomes(MVLD_REFERENCE_JCC_PLT, "\x0f\x8f", "\x0f\x8f", 6, 2);
    becomes(MVLD_REFERENCE_CALL_SLOT, "\xff\x15", "\x67\xe8", 6, 2);
    becomes(MVLD_REFERENCE_JUMP_SLOT, "\xff\x25", "\xe9", 6, 1);
    /* Each is refused where another one was announced. */
    for (int have = MVLD_REFERENCE_CALL_PLT; have <= MVLD_REFERENCE_JUMP_SLOT; have++) {
        static const uint8_t opcodes[][2] = {{0xe8}, {0xe9}, {0x0f, 0x85}, {0xff, 0x15},
                                             {0xff, 0x25}};

        memset(code, 0, sizeof code);
        memcpy(code, opcodes[have - 1], 2);
        for (int said = MVLD_REFERENCE_CALL_PLT; said <= MVLD_REFERENCE_JUMP_SLOT + 1; said++)
            CHECK(site_read(&site, (enum mvld_reference_kind)said, (uintptr_t)code, sizeof code) ==
                  (have == said));
    }
    code[0] = 0x0f;
    code[1] = 0x90; /* setcc, no jcc */
    CHECK(!site_read(&site, MVLD_REFERENCE_JCC_PLT, (uintptr_t)code, sizeof code));
    return 0;
}
