/* SPDX-License-Identifier: MIT
 *
 * Functions of a single instruction, others that look alike, and who calls them.
 */
.macro function name
    .globl \name
    .ifnc \name, caller
    .hidden \name
    .endif
    .type \name, @function
    .p2align 4
\name:
    .cfi_startproc
.endm
.macro end name
    .cfi_endproc
    .size \name, . - \name
.endm

    .text
function one
    mov $1, %eax
    ret
end one

function zero
    xor %eax, %eax
    ret
end zero

function same
    endbr64
    mov %rdi, %rax
    ret
end same

function nothing
    ret
end nothing

function load
    mov (%rdi), %eax
    ret
end load

/* one() + 10 * zero() + 100 * same(3) + 1000 * load(&word), which is 4301 */
function caller
    push %rbx
    .cfi_adjust_cfa_offset 8
    mov $7, %eax
    call one
    mov %eax, %ebx
    call zero
    imul $10, %eax, %eax
    add %eax, %ebx
    mov $3, %edi
    call same
    imul $100, %eax, %eax
    add %eax, %ebx
    call nothing
    lea word(%rip), %rdi
    call load
    imul $1000, %eax, %eax
    add %ebx, %eax
    pop %rbx
    .cfi_adjust_cfa_offset -8
    ret
end caller

    .section .rodata
    .p2align 2
word:
    .long 4

#ifdef DESCRIBED /* as of multiverse, whose pass may change any function of the object */
    .section .note.multiverse, "a", @note
    .p2align 2
    .long 11, 4, 1
    .asciz "Multiverse"
    .p2align 2
    .long 0
#endif
    .section .note.GNU-stack, "", @progbits
