/* SPDX-License-Identifier: MIT
 *
 * rimf/x86/registers.h: the general registers that an instruction reads and writes.
 *
 * A set has one bit for each: 1 is rax, 2 rcx, 4 rdx … 1 << 15 r15.  The stack pointer of push,
 * pop, calls and returns is omitted.
 */
#ifndef RIMF_REGISTERS_H
#define RIMF_REGISTERS_H

#include "rimf/x86/decode.h"

#define REGISTERS_ALL 0xffffu
#define RAX 0u
#define RCX 1u
#define RDX 2u
#define RBX 3u
#define RSP 4u
#define RBP 5u
#define RSI 6u
#define RDI 7u

/* A register may be in several sets.  One that an instruction may leave unchanged, or changes in
 * part, also counts as read.  For an unknown instruction all registers count as read. */
struct registers {
    uint16_t read;          /* more than its second byte, or unknown */
    uint16_t written;       /* completely overwritten */
    uint16_t bytes_read;    /* only one of its two lowest bytes */
    uint16_t bytes_written; /* likewise; other bytes are unchanged */
};

/* The registers of a decoded instruction, whose bytes are at `code`.  Effects of a call or a system
 * call are not included, except the target that it reads. */
struct registers registers_of(const uint8_t *code, const struct instruction *);

/* Of the status flags (CF, PF, AF, ZF, SF, OF), or-ed: it reads one, or this is unknown; it writes
 * all, including those that become undefined.  Calls and returns are not included. */
#define FLAGS_READ 1u
#define FLAGS_WRITTEN 2u
unsigned flags_of(const uint8_t *code, const struct instruction *);

/* The operands that ModRM names, extended by REX; for the second, without VEX. */
static inline unsigned operand_reg(const struct instruction *i)
{
    return modrm_reg(i) | (i->rex & 4u) << 1;
}
static inline unsigned operand_rm(const struct instruction *i)
{
    return (i->modrm & 7u) | (i->rex & 1u) << 3;
}
/* mod 3: the second operand is a register. */
static inline int operand_is_register(const struct instruction *i)
{
    return i->has_modrm && i->modrm >= 0xc0;
}

#endif
