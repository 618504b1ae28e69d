/* SPDX-License-Identifier: MIT
 *
 * Instructions whose length is easily got wrong, one by one.  A failure means that
 * everything behind such an instruction is decoded at the wrong place.
 */
#include "../../check.h"

#include "rimf/x86/decode.h"

enum { BAD = 0 };

static const struct sample {
    const char *bytes;
    size_t room;
    unsigned length, odd;
    const char *what;
} samples[] = {
#define S(bytes, length, odd, what) {bytes, sizeof bytes - 1, length, odd, what}
    S("\x90", 1, 0, "nop"),
    S("\x66\x66\x2e\x0f\x1f\x84\0\0\0\0\0", 11, 0, "data16 nopw %cs:0(%rax,%rax)"),
    S("\x48\xb8\1\2\3\4\5\6\7\x8", 10, 0, "movabs $imm64,%rax"),
    S("\xb8\1\2\3\4", 5, 0, "mov $imm32,%eax"),
    S("\x66\xb8\1\2", 4, 0, "mov $imm16,%ax"),
    S("\x66\x48\xb8\1\2\3\4\5\6\7\x8", 11, 0, "66 before REX.W"),
    S("\x48\x66\xb8\1\2", 5, 0, "a REX that does not stand before the opcode"),
    S("\xa1\1\2\3\4\5\6\7\x8", 9, 0, "mov moffs,%eax"),
    S("\x67\xa1\1\2\3\4", 6, 0, "mov moffs32,%eax"),
    S("\xc8\1\2\3", 4, 1, "enter"),
    S("\xf6\xc0\1", 3, 0, "test $imm8,%al"),
    S("\xf6\xd0", 2, 0, "not %al"),
    S("\xf7\xc0\1\2\3\4", 6, 0, "test $imm32,%eax"),
    S("\xf7\xd8", 2, 0, "neg %eax"),
    S("\xc7\xf8\1\2\3\4", 6, 0, "xbegin"),
    S("\xc6\xf8\1", 3, 0, "xabort"),
    S("\x66\x0f\x78\xc0\1\2", 6, 0, "extrq"),
    S("\x0f\x78\xc0", 3, 0, "vmread"),
    S("\xf3\x0f\xb8\xc0", 4, 0, "popcnt"),
    S("\x0f\x0f\xc0\x9e", 4, 0, "3DNow! pfadd"),
    S("\x0f\x38\xf0\x01", 4, 0, "movbe"),
    S("\x66\x0f\x3a\x0f\xc1\x04", 6, 0, "palignr"),
    S("\xc5\xf8\x77", 3, 0, "vzeroupper"),
    S("\xc5\xf1\xc4\xc0\1", 5, 0, "vpinsrw"),
    S("\xc4\xe3\x71\x0f\xc2\1", 6, 0, "vpalignr"),
    S("\x62\xf1\x7c\x48\x28\x05\0\0\0\0", 10, 0, "vmovaps zmm, rip"),
    S("\x62\xf3\x75\x48\x25\xc0\1", 7, 0, "vpternlogd"),
    S("\x8f\xe8\x78\xa2\xc0\0", 6, 0, "XOP vpcmov"),
    S("\x8f\x00", 2, 0, "pop (%rax)"),
    S("\x0f\x20\x05", 3, 1, "mov %cr0,%rbp: mod does not count"),
    S("\x67\xe3\x05", 3, 0, "jecxz"),
    S("\x66\xe8\1\2\3\4", 6, 1, "call with 66: two lengths in the world"),
    S("\x66\x66\x48\xe8\1\2\3\4", 8, 0, "data16 data16 rex.W call"),
    S("\xcd\x80", 2, 0, "int $0x80"),
    S("\xcd\x29", 2, 1, "int $0x29"),
    S("\xff\x18", 2, 1, "lcall *(%rax)"),
    S("\xf0\x0f\xb1\x0f", 4, 0, "lock cmpxchg"),
    S("\xf0\x01\xc0", BAD, 0, "lock without memory"),
    S("\xf0\x90", BAD, 0, "lock nop"),
    S("\x8d\xc0", BAD, 0, "lea of a register"),
    S("\x06", BAD, 0, "push %es"),
    S("\x66\xc5\xf8\x77", BAD, 0, "66 before VEX"),
    S("\x48\xc5\xf8\x77", BAD, 0, "REX before VEX"),
    S("\x62\xf1\x78\x48\x28\xc0", BAD, 0, "EVEX with a bit that must be set"),
    S("\xff\xf8", BAD, 0, "ff /7"),
    S("\xe8\1\2\3", BAD, 0, "cut short"),
    S("\x48", BAD, 0, "nothing but a prefix"),
    S("\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x90", 15, 0, "15 bytes"),
    S("\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x90", BAD, 0, "16 bytes"),
};

static const struct {
    const char *bytes;
    size_t room;
    enum flow flow;
} flows[] = {
    {"\xe8\0\0\0\0", 5, FLOW_CALL}, {"\xf2\xe8\0\0\0\0", 6, FLOW_CALL},
    {"\xe9\0\0\0\0", 5, FLOW_JUMP}, {"\xeb\0", 2, FLOW_JUMP}, {"\x0f\x84\0\0\0\0", 6, FLOW_BRANCH},
    {"\x7f\0", 2, FLOW_BRANCH}, {"\xe3\0", 2, FLOW_BRANCH}, {"\xc7\xf8\0\0\0\0", 6, FLOW_BRANCH},
    {"\xc7\xc0\0\0\0\0", 6, FLOW_NEXT}, {"\xff\x15\0\0\0\0", 6, FLOW_CALL_INDIRECT},
    {"\xff\xe0", 2, FLOW_JUMP_INDIRECT}, {"\x3e\xff\xe0", 3, FLOW_JUMP_INDIRECT},
    {"\xff\x35\0\0\0\0", 6, FLOW_NEXT}, {"\xc3", 1, FLOW_END}, {"\xf3\xc3", 2, FLOW_END},
    {"\x0f\x0b", 2, FLOW_END}, {"\x0f\x05", 2, FLOW_CALL_INDIRECT}, {"\xf4", 1, FLOW_END},
};

int main(void)
{
    struct instruction i;

    for (size_t n = 0; n < sizeof samples / sizeof *samples; n++) {
        const struct sample *s = &samples[n];
        unsigned length = decode((const uint8_t *)s->bytes, s->room, &i);

        CHECK(length == s->length, "(%s: %u)", s->what, length);
        CHECK(!length || i.odd == s->odd, "(%s)", s->what);
        /* What is cut short is none. */
        for (size_t room = 0; room < length; room++)
            CHECK(decode((const uint8_t *)s->bytes, room, &i) == 0, "(%s, %zu)", s->what, room);
    }
    for (size_t n = 0; n < sizeof flows / sizeof *flows; n++) {
        CHECK(decode((const uint8_t *)flows[n].bytes, flows[n].room, &i) == flows[n].room);
        CHECK(instruction_flow(&i) == flows[n].flow, "(%zu)", n);
    }
    CHECK(decode((const uint8_t *)"\xc7\x05\1\2\3\4\5\6\7\x8", 10, &i) == 10 && i.rip);
    CHECK(i.displacement_at == 2 && i.immediate_at == 6 && i.immediate_size == 4);
    return 0;
}
