/* SPDX-License-Identifier: MIT
 *
 * rimf/patch/insn.c: decides whether bytes are one instruction.
 *
 * A thread may stand at any instruction boundary inside the old bytes (preempted there, or with a return
 * address on its stack), and would continue in the middle of the new ones.  So while threads run, a patch
 * is safe only if its old bytes are a single instruction.  Bytes behind an unconditional jump are never
 * reached: `e9 rel32 90`, `eb rel8 cc cc cc`.
 *
 * Nor may a thread stand inside that one: string instructions are interrupted half-way, a system call may be
 * made again, and code may jump behind a lock prefix.  Of other maps than the first two some are, too.
 */
#include "rimf/patch/private.h"
#include "rimf/x86/decode.h"

static int is_whole(const struct instruction *i)
{
    int is_string = i->map == 0 && i->opcode >= 0xa4 && i->opcode <= 0xaf && (i->opcode & 0xfe) != 0xa8;

    return i->encoding == ENCODING_LEGACY && i->map <= 1 && !i->odd && !is_string && !(i->prefixes & PREFIX_LOCK) &&
           (instruction_flow(i) != FLOW_CALL_INDIRECT || instruction_is(i, 0, 0xff));
}

int patch_one_instruction(const uint8_t *code, size_t length)
{
    struct instruction i;
    size_t n = decode(code, length, &i);
    enum flow flow;

    if (!n || !is_whole(&i))
        return 0;
    flow = instruction_flow(&i);
    if (n < length && flow != FLOW_JUMP && flow != FLOW_JUMP_INDIRECT && !instruction_is(&i, 0, 0xc3))
        return 0;
    while (n < length && (code[n] == 0x90 || code[n] == 0xcc))
        n++;
    return n == length;
}
