/* SPDX-License-Identifier: MIT
 *
 * Tail calls, with and without a condition, and a call with a bnd prefix.
 */
    .text
    .macro function name
    .globl \name
    .type \name, @function
\name:
    .cfi_startproc
    .endm
    .macro done name
    .cfi_endproc
    .size \name, . - \name
    .endm

    function tail
    jmp base@PLT
    done tail

    function tail_if
    testl %edi, %edi
    jne base@PLT
    movl $-1, %eax
    ret
    done tail_if

    function tail_slot
    jmp *base@GOTPCREL(%rip)
    done tail_slot

    function call_bnd
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    .byte 0xf2
    call base@PLT
    .byte 0xf2
    call *base@GOTPCREL(%rip)
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    ret
    done call_bnd

    .section .note.GNU-stack, "", @progbits
