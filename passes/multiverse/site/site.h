/* SPDX-License-Identifier: MIT
 *
 * site.h: the instructions at call sites and entries.
 *
 * A site is one instruction, and stays one instruction whatever is written into it.  So it can be
 * changed while threads run: a thread is before or behind it, never inside.  A body is copied into
 * a site only if it is a single instruction, which prefixes stretch to the site's length; a NOP
 * behind it would be a second place for a thread to stand.
 */
#ifndef MULTIVERSE_SITE_H
#define MULTIVERSE_SITE_H

#include <stddef.h>
#include <stdint.h>

#define MV_SITE_MAX 11u /* bytes of the longest site */
#define MV_CALL_MAX 6u
#define MV_SITE_MIN 5u
#define MV_PAD_SIZE 5u
#define MV_BRANCH_SIZE 6u /* a conditional jump */

enum mv_site_kind {
    MV_SITE_NONE,
    MV_CALL,          /* e8 rel32 */
    MV_JUMP,          /* e9 rel32, also with a linker's 90 behind it */
    MV_JUMP_SHORT,    /* eb rel8 cc cc cc */
    MV_CALL_SLOT,     /* ff 15 rel32 */
    MV_JUMP_SLOT,     /* ff 25 rel32 */
    MV_CALL_RELAXED,  /* 67 e8 rel32, 40 e8 rel32 */
    MV_READ,          /* of a constant: see mvld/descriptor.h */
};

struct mv_decoded {
    enum mv_site_kind kind;
    uint8_t length;
    uint8_t width;    /* of a read: loaded bytes, else 0 */
    uintptr_t target; /* of a direct call or jump; of a read, the variable, 0 if a register has its
                       * address; of others, the slot */
};

/* A variant's body as one instruction, without its `ret`. */
struct mv_inline {
    uint8_t usable; /* 0: must be called */
    uint8_t length; /* 0: the body is empty */
    uint8_t nops;   /* 1: the body has a NOP of the length of a jump, which the copy lacks */
    uint8_t thunk;  /* 1: this code returns by a thunk, so no site may hold a plain `ret` */
    uint64_t bytes;
};

/* The bytes of a site or pad, up to 8, as one little-endian word whose upper bytes are 0.  With ten
 * thousand sites, copying and comparing single bytes would dominate a commit. */
typedef uint32_t mv_word_32 __attribute__((may_alias, aligned(1)));

static inline uint64_t mv_bytes_at(uintptr_t address, unsigned length) /* 4 to 8 */
{
    unsigned tail = length - 4;

    return *(const mv_word_32 *)address | (uint64_t)*(const mv_word_32 *)(address + tail) << 8 * tail;
}

/* A site of more than 8 bytes is two words: 4 bytes, and the rest. */
#define MV_HEAD 4u

static inline int mv_site_is_jump(enum mv_site_kind kind)
{
    return kind == MV_JUMP || kind == MV_JUMP_SHORT || kind == MV_JUMP_SLOT;
}
static inline int mv_site_is_slot(enum mv_site_kind kind)
{
    return kind == MV_CALL_SLOT || kind == MV_JUMP_SLOT;
}

/* Decodes the site at `code`, of which `room` bytes may be read, and which runs at `address`.
 * Returns 1, or 0 if it is none of the encodings. */
int mv_site_decode(const uint8_t *code, size_t room, uintptr_t address, struct mv_decoded *out);

/* Writes the distance behind an opcode of `at` bytes.  0 if it does not fit. */
static inline int mv_put_relative(uint64_t opcode, unsigned at, uintptr_t next, uintptr_t target,
                                  uint64_t *out)
{
    intptr_t distance = (intptr_t)(target - next);

    *out = opcode | (uint64_t)(uint32_t)distance << 8 * at;
    return distance == (int32_t)distance;
}

/* How a site without a copied body jumps to its target: the opcode; the distance is `at` bytes
 * behind its start, and counted from `next` bytes behind it. */
struct mv_lead {
    uint64_t opcode;
    uint8_t at, next;
};

static inline struct mv_lead mv_site_lead(enum mv_site_kind kind, unsigned length)
{
    if (mv_site_is_jump(kind)) /* e9 rel32 [90]  jmp target [nop] */
        return (struct mv_lead){length == 6 ? 0x9000000000e9u : 0xe9u, 1, 5};
    if (length == 6) /* 67 e8 rel32  addr32 call target */
        return (struct mv_lead){0xe867, 2, 6};
    return (struct mv_lead){0xe8, 1, 5}; /* e8 rel32  call target */
}

/* Encodes a body instead of the call.  1 if it fits. */
int mv_body_encode(int jump, unsigned length, const struct mv_inline *body, uint64_t *out);

/* Encodes `length` bytes that make a site of this kind at `address` call `target`, or contain the
 * body.  1, or 0 if the target is out of reach. */
int mv_site_encode(enum mv_site_kind kind, unsigned length, uintptr_t address, uintptr_t target,
                   const struct mv_inline *body, uint64_t *out);

/* The same for a read. */
int mv_read_decode(const uint8_t *code, size_t room, uintptr_t address, struct mv_decoded *out);

/* Encodes the `mov` of the value that replaces the load of a read, with the same `length`. */
void mv_read_encode(const uint8_t *load, unsigned length, uint64_t value, uint8_t *out);

/* The entry of a generic, 5 bytes, or the branch of an inline call, 6: a NOP if the target follows
 * it, else a jump.  0 if out of reach. */
#define MV_PAD_NOP 0x0000441f0fu /* 0f 1f 44 00 00  nopl 0(%rax,%rax,1): also the encoding of a jump
                                  * to the next instruction */
int mv_pad_encode(unsigned length, uintptr_t address, uintptr_t target, uint64_t *out);

/* Reads a variant's body (inline.c), of which `size` bytes may be read, where it runs.  A jump to `thunk`, if that is not 0,
 * is a return. */
void mv_inline_read(const uint8_t *body, size_t size, uintptr_t thunk, struct mv_inline *out);
/* The length of the instruction at `code` if it is position-independent and uses neither stack nor
 * control flow, or 0.  For the tests. */
unsigned mv_inline_length(const uint8_t *code, size_t size);

#endif
