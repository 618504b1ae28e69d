/* SPDX-License-Identifier: MIT
 *
 * Fixture of multiverse/pointers.c: a function pointer, its hidden stub, and two
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
    /* Where it may lead: short functions, one of which is a variation point with a variant. */
    .balign 16
function nothing
    ret
    .balign 16
function five
    endbr64
    mov $5, %eax
    ret
    .balign 16
function point
    pad_nop
    ret
.Lseven:
    mov $7, %eax
    nop                          # two instructions: called, not copied
    ret
.Lseven_end:
    .balign 16
    record point, point, point, 1, 1
    variant .Lseven, .Lseven_end, 0, 1
    guard choose, 4, SIGNED, 1, 1
    end_record point
    .data
    .globl choose
    .type choose, @object
    .size choose, 4
    .balign 4
choose:
    .long 0
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
    mov $77, %eax
    .balign 8
    .globl NAME(site_, PART)
NAME(site_, PART):
.Lcall:
    call stub
    site .Lcall, stub
    add $8, %rsp
    ret
    .balign 16
function NAME(jump_, PART)
    mov $77, %eax
    .balign 8
.Ljump:
    .byte 0xe9                   # jmp stub, not in its short form
    .long stub - . - 4
    site .Ljump, stub
    pointer_record pointer, stub, stub + 8, pointer
    end_record pointer
    note
