/* SPDX-License-Identifier: MIT
 *
 * rimf/x86/registers.h: which general registers an instruction reads and writes.
 *
 * Sets of them have a bit each: 1 is rax, 2 rcx, 4 rdx … 1 << 15 r15.  The stack pointer is left out
 * where push, pop, calls and returns use it.
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

/* A register may be in several.  What an instruction may leave as it was, or changes in part, counts
 * as read, too; and all registers do where an instruction is not known. */
struct registers {
    uint16_t read;          /* more of it than its second byte, or what is not known */
    uint16_t written;       /* the whole of it; nothing of what it held remains */
    uint16_t bytes_read;    /* of its two lowest bytes one alone */
    uint16_t bytes_written; /* likewise; the others stay */
};

/* Those of a decoded instruction, whose bytes are at `code`.  What a call or a system call does to
 * registers, other than read the place to call, is not said. */
struct registers registers_of(const uint8_t *code, const struct instruction *);

/* Of the status flags (CF, PF, AF, ZF, SF, OF), or-ed: it reads one, or that is not known; it writes all, those that
 * are undefined behind it among them.  Calls and returns are no matter. */
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
