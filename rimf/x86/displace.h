/* SPDX-License-Identifier: MIT
 *
 * rimf/x86/displace.h: moves the first instructions of a function.
 *
 * To be called before a function runs, one writes a jump over its start.  The overwritten
 * instructions run elsewhere, and jump back behind the jump:
 *
 *     f:      [endbr64]                       f:      [endbr64]
 *             push %r13                               jmp stub       ───►  stub: …
 *             push %r12              becomes          …                          push %r13
 *             push %rbp                       f+5:    push %rbx                  push %r12
 *     f+5:    push %rbx                                                          push %rbp
 *                                                     ◄───                       jmp f+5
 *
 * This is correct only if the difference cannot be observed:
 *   - whole instructions move, and each continues with the next one: no branch, call, return, system
 *     call or breakpoint, and nothing that depends on its own address except a RIP-relative operand,
 *     which is corrected;
 *   - nothing branches behind the first byte of the jump: this file checks the function's own
 *     branches; the caller knows that there are no others (it is the start of a function);
 *   - nothing reads those bytes.
 * Anything else is refused.
 */
#ifndef RIMF_DISPLACE_H
#define RIMF_DISPLACE_H

#include "rimf/x86/decode.h"

#define DISPLACE_JUMP 5                        /* e9 rel32 */
#define DISPLACE_MAX (DISPLACE_JUMP - 1 + 15) /* the last instruction begins inside the jump */

struct displaced {
    uint8_t skip;   /* the jump is behind an endbr64, which stays */
    uint8_t length; /* DISPLACE_JUMP or more */
    uint8_t bytes[DISPLACE_MAX];
};

/* The function of `size` bytes that runs at `start`, and is readable at `code`: encodes its first
 * instructions for address `to`.  `again`: it was displaced before, in any process, so the rest of it is not
 * checked again.  NULL, or why it is refused (static). */
const char *displace(const uint8_t *code, size_t size, uintptr_t start, uintptr_t to, int again,
                     struct displaced *out);

/* A jump may take the place of what the function begins with, which runs nowhere any more: so that may be anything but
 * a system call, or a call that would return behind the first byte of the jump.  Only `skip` and `length` are set.
 * NULL, or why it may not (static). */
const char *displace_over(const uint8_t *code, size_t size, uintptr_t start, struct displaced *out);

/* Encodes one instruction at `from`, readable at `code`, into `bytes` for the address `to`: a RIP
 * operand and a four-byte branch keep their targets.  0; -ENOTSUP: another branch, or an operand of
 * 32 bits; -ERANGE: too far. */
int displace_one(const uint8_t *code, uintptr_t from, uintptr_t to, const struct instruction *, uint8_t *bytes);

/* e9 rel32 at `from`; 0, or -ERANGE. */
int displace_jump(uint8_t jump[DISPLACE_JUMP], uintptr_t from, uintptr_t to);

#endif
