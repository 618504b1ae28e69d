/* SPDX-License-Identifier: MIT
 *
 * Fixture of multiverse_pointers.c: a function pointer, its hidden stub, and two
 * calls through it, one in tail position.  -DPART=name makes another object with a
 * stub and a call of its own.
 */
#include "descriptors.h"
#ifndef PART
# define PART one
    .data
    .globl pointer
    .type pointer, @object
    .size pointer, 8
    .balign 8
pointer:
    .quad 0
    .text
#endif
#define JOIN(a, b) a##b
#define NAME(a, b) JOIN(a, b)

    .balign 16
    .local stub
stub:
    endbr64
    pad_nop
    mov pointer@GOTPCREL(%rip), %rax
    jmp *(%rax)

    .balign 16
function NAME(call_, PART)
    sub $8, %rsp
    .balign 8
.Lcall:
    call stub
    site .Lcall, stub
    add $8, %rsp
    ret
    .balign 16
function NAME(jump_, PART)
    .balign 8
.Ljump:
    .byte 0xe9                   # jmp stub, not in its short form
    .long stub - . - 4
    site .Ljump, stub
    pointer_record pointer, stub, stub + 8, pointer
    end_record pointer
    note
