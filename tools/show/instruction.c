/* SPDX-License-Identifier: MIT
 *
 * instruction.c: what stands at a call site of an object on the disk.
 */
#include "tools/show/descriptors.h"

/* The length of a load as descriptor.h lists them, or 0. */
static unsigned read_length(const uint8_t *b, size_t n)
{
    size_t at = 0;
    while (at < n && b[at] == 0x3e)
        at++;
    if (at < n && (b[at] & 0xf0) == 0x40) /* REX */
        at++;
    if (at + 1 < n && b[at] == 0x0f && (b[at + 1] & 0xf6) == 0xb6)
        at++;
    else if (at >= n || b[at] != 0x8b)
        return 0;
    at += 2; /* opcode, ModRM */
    if (at > n)
        return 0;
    unsigned mode = b[at - 1] >> 6, base = b[at - 1] & 7;
    at += mode == 0 && base == 5 ? 4 : (base == 4) + (mode == 1);
    return mode > 1 || at > n ? 0 : at;
}

enum mv_instruction instruction_decode(const uint8_t *b, size_t n, unsigned *length)
{
    *length = read_length(b, n);
    if (*length)
        return MV_READ;
    *length = 6;
    if (n >= 6) {
        if (b[0] == 0xff && b[1] == 0x15) /* ff 15 rel32   call *rel32(%rip) */
            return MV_CALL_GOT;
        if (b[0] == 0xff && b[1] == 0x25) /* ff 25 rel32   jmp *rel32(%rip) */
            return MV_JMP_GOT;
        if ((b[0] == 0x67 || b[0] == 0x40) && b[1] == 0xe8) /* 67 e8 rel32   addr32 call */
            return MV_CALL_RELAXED;
        if (b[0] == 0xe9 && b[5] == 0x90) /* e9 rel32 90   jmp; nop */
            return MV_JMP_RELAXED;
    }
    *length = 5;
    if (n >= 5) {
        if (b[0] == 0xe8) /* e8 rel32 */
            return MV_CALL;
        if (b[0] == 0xe9) /* e9 rel32 */
            return MV_JMP;
        if (b[0] == 0xeb && b[2] == 0xcc && b[3] == 0xcc && b[4] == 0xcc)
            return MV_JMP_SHORT; /* eb rel8 cc cc cc */
    }
    *length = 0;
    return MV_UNKNOWN;
}

const char *instruction_name(enum mv_instruction i)
{
    static const char *const names[] = {
        "call", "jmp", "jmp short", "call *GOT", "jmp *GOT", "call (relaxed)", "jmp (relaxed)",
        "read", "not a call"};
    return names[i];
}
