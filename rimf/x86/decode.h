/* SPDX-License-Identifier: MIT
 *
 * rimf/x86/decode.h: the length of an x86-64 instruction, and the position of operands that depend
 * on its address.
 *
 * A length decoder, for the analyser and for code that moves instructions.  It knows prefixes,
 * opcode maps, ModRM and immediates, and how control leaves an instruction, but not what
 * instructions compute.  It follows what processors of Intel and AMD agree on.  Where they do not
 * (66 before a near branch), and for instructions that no compiler emits (ports, far returns,
 * privileged instructions), the instruction is marked `odd`.
 */
#ifndef RIMF_DECODE_H
#define RIMF_DECODE_H

#include <stddef.h>
#include <stdint.h>

#include "rimf/base/base.h"

enum encoding { ENCODING_LEGACY, ENCODING_VEX, ENCODING_EVEX, ENCODING_XOP };

enum prefix { /* that were present, whether they have an effect or not */
    PREFIX_OPERAND = 1 << 0, /* 66 */
    PREFIX_ADDRESS = 1 << 1, /* 67 */
    PREFIX_REPNE = 1 << 2,   /* f2; bnd before branches */
    PREFIX_REP = 1 << 3,     /* f3 */
    PREFIX_LOCK = 1 << 4,
    PREFIX_SEGMENT = 1 << 5  /* 26 2e 36 3e 64 65; notrack before branches */
};

struct instruction {
    uint8_t length, encoding;
    uint8_t map; /* 0: one byte, 1: 0f, 2: 0f 38, 3: 0f 3a; others with VEX, EVEX, XOP */
    uint8_t opcode, opcode_at;
    uint8_t prefixes, rex; /* rex: 0, or the byte */
    uint8_t has_modrm, modrm;
    uint8_t rip; /* the operand is displacement(%rip) */
    uint8_t displacement_at, displacement_size;
    uint8_t immediate_at, immediate_size;
    uint8_t odd;
};

/* How control continues after an instruction. */
enum flow {
    FLOW_NEXT,
    FLOW_CALL,          /* e8; system calls are calls, too: some do not return */
    FLOW_CALL_INDIRECT, /* and syscall, int 80 */
    FLOW_JUMP,          /* e9, eb */
    FLOW_BRANCH,        /* jcc, loop, jrcxz, xbegin */
    FLOW_JUMP_INDIRECT,
    FLOW_END            /* ret, ud2, hlt, int3 */
};

/* The length of the first instruction in `room` bytes, or 0: invalid. */
unsigned decode(const uint8_t *code, size_t room, struct instruction *);

enum flow instruction_flow(const struct instruction *);
/* Returns 1 for FLOW_CALL, FLOW_JUMP and FLOW_BRANCH: the operand is a distance. */
static inline int flow_is_relative(enum flow flow)
{
    return flow == FLOW_CALL || flow == FLOW_JUMP || flow == FLOW_BRANCH;
}
/* NOPs of any length, and int3, which pad functions. */
int instruction_is_padding(const struct instruction *);

static inline int instruction_is(const struct instruction *i, uint8_t map, uint8_t opcode)
{
    return i->encoding == ENCODING_LEGACY && i->map == map && i->opcode == opcode;
}
static inline unsigned modrm_reg(const struct instruction *i)
{
    return i->modrm >> 3 & 7u;
}

/* Reads a four-byte distance at any address. */
static inline int64_t distance_at(const void *bytes)
{
    int32_t distance;

    memcpy(&distance, bytes, sizeof distance);
    return distance;
}

/* The target of a jump table's entry, which is a distance from the table. */
static inline uintptr_t entry_target(uintptr_t table, uintptr_t entry)
{
    return table + (uintptr_t)distance_at((const void *)entry);
}

/* The length of an endbr64 at the start of this code, or 0. */
static inline size_t endbr64_size(const uint8_t *code, size_t size)
{
    static const uint8_t endbr64[4] = {0xf3, 0x0f, 0x1e, 0xfa};

    return size >= sizeof endbr64 && memcmp(code, endbr64, sizeof endbr64) == 0 ? sizeof endbr64 : 0;
}

/* The length of a PLT entry at the start of this code, up to its jump through a slot, whose distance comes last:
 *
 *     [f3 0f 1e fa]  [41 bb imm32]  [f2|3e] ff 25 rel32
 *     [endbr64]      [mov $n,%r11d] [bnd|notrack] jmp *slot(%rip)
 *
 * 0: there is none. */
static inline size_t plt_entry_size(const uint8_t *code, size_t size)
{
    size_t at = endbr64_size(code, size);

    at += size >= at + 6 && memcmp(code + at, "\x41\xbb", 2) == 0 ? 6 : 0;
    at += size > at && (code[at] == 0xf2 || code[at] == 0x3e);
    return size >= at + 6 && memcmp(code + at, "\xff\x25", 2) == 0 ? at + 6 : 0;
}

/* The target of a relative branch, or of a RIP operand, of the instruction at address `at`, whose
 * bytes are `code`. */
static inline uint64_t branch_target(const uint8_t *code, uint64_t at, const struct instruction *i)
{
    const uint8_t *distance = code + i->immediate_at;

    return at + i->length +
           (uint64_t)(i->immediate_size == 1 ? (int8_t)*distance : distance_at(distance));
}
static inline uint64_t rip_target(const uint8_t *code, uint64_t at, const struct instruction *i)
{
    return at + i->length + (uint64_t)distance_at(code + i->displacement_at);
}

#endif
