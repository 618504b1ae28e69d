/* SPDX-License-Identifier: MIT
 *
 * rimf/x86/displace.h: the first instructions of a function, for another place.
 *
 * Who wants to be asked before a function runs writes a jump over its start.  What
 * stood there runs elsewhere, and jumps back behind the jump:
 *
 *     f:      [endbr64]                       f:      [endbr64]
 *             push %r13                               jmp stub       ───►  stub: …
 *             push %r12              becomes          …                          push %r13
 *             push %rbp                       f+5:    push %rbx                  push %r12
 *     f+5:    push %rbx                                                          push %rbp
 *                                                     ◄───                       jmp f+5
 *
 * That is the same function only when nobody sees the difference:
 *   - whole instructions move, and each goes on to the next one: no branch, call,
 *     return, system call or breakpoint, nothing that depends on its own address but a
 *     RIP-relative operand, which is corrected;
 *   - nothing leads behind the first byte of the jump: the function's own branches are
 *     looked at; that nothing else does, the caller knows (it is the start of a function);
 *   - nothing reads those bytes.
 * Anything else is refused.
 */
#ifndef RIMF_DISPLACE_H
#define RIMF_DISPLACE_H

#include "rimf/x86/decode.h"

#define DISPLACE_JUMP 5                        /* e9 rel32 */
#define DISPLACE_MAX (DISPLACE_JUMP - 1 + 15) /* the last instruction begins inside the jump */

struct displaced {
    uint8_t skip;   /* the jump stands behind an endbr64, which stays */
    uint8_t length; /* DISPLACE_JUMP or more */
    uint8_t bytes[DISPLACE_MAX];
};

/* The function of `size` bytes that runs at `start`, and can be read at `code`: what its
 * first instructions are at `to`.  0, or -ENOTSUP with a sentence (static) in *why. */
int displace(const uint8_t *code, size_t size, uintptr_t start, uintptr_t to,
             struct displaced *out, const char **why);

/* The same of a function that was displaced before, in whatever process: what else is in it is
 * not looked at again. */
int displace_again(const uint8_t *code, size_t size, uintptr_t start, uintptr_t to,
                   struct displaced *out, const char **why);

/* A jump may take the place of what the function begins with, which runs nowhere any more: so that may be anything but
 * a system call, or a call that would return behind the first byte of the jump.  `skip` and `length` alone are said. */
int displace_over(const uint8_t *code, size_t size, uintptr_t start, struct displaced *out, const char **why);

/* One instruction that is at `from`, and can be read at `code`, into `bytes` for the address `to`: an operand
 * relative to RIP and a branch of four bytes lead where they led.  0; -ENOTSUP: another branch, or an operand
 * of 32 bits; -ERANGE: too far. */
int displace_one(const uint8_t *code, uintptr_t from, uintptr_t to, const struct instruction *, uint8_t *bytes);

/* e9 rel32 at `from`; 0, or -ERANGE. */
int displace_jump(uint8_t jump[DISPLACE_JUMP], uintptr_t from, uintptr_t to);

#endif
