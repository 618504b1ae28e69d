/* SPDX-License-Identifier: MIT
 *
 * loader/registers.h: how the assembly entries of rooms keep registers; for these alone.
 */
#ifndef LOADER_REGISTERS_H
#define LOADER_REGISTERS_H

/* All integer registers that a called function may change, and where some are then. */
    .set KEPT_RAX, 64
    .set KEPT_RCX, 56
    .set KEPT_RDX, 48
    .set KEPT_RSI, 40
    .set KEPT_RDI, 32
    .macro keep
    .irp reg, %rax, %rcx, %rdx, %rsi, %rdi, %r8, %r9, %r10, %r11
    pushq \reg
    .cfi_adjust_cfa_offset 8
    .endr
    .endm
    .macro restore
    .irp reg, %r11, %r10, %r9, %r8, %rdi, %rsi, %rdx, %rcx, %rax
    popq \reg
    .cfi_adjust_cfa_offset -8
    .endr
    .endm

/* Calls the function with the state and a pointer to these registers, which are `size` bytes, and
 * puts them back; on the way out in the other order. */
    .macro with_registers function, size, pushed, popped
    .cfi_startproc
    pushq %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rbp, 0
    movq %rsp, %rbp
    .cfi_def_cfa_register %rbp
    .irp reg, \pushed
    pushq \reg
    .endr
    movq %rsp, %rsi
    andq $-16, %rsp
    leaq loader_state(%rip), %rdi
    call \function
    leaq -\size(%rbp), %rsp
    .irp reg, \popped
    popq \reg
    .endr
    popq %rbp
    .cfi_def_cfa %rsp, 8
    ret
    .cfi_endproc
    .endm

#endif
