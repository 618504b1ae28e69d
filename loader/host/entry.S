/* SPDX-License-Identifier: MIT
 *
 * loader/host/entry.S: from the host loader, in place of a cpuid (loader_cpuid_stubs).
 */
#include "loader/registers.h"

    .text

/* Stub i stands in for a cpuid of the host loader's and for some instructions before it
 * (known_sites.py), and is jumped to from the first of these.  Like cpuid we change %eax, %ebx, %ecx,
 * %edx with their upper halves; and the flags, which the build has seen to be of no use to
 * anybody.  Like above we must not touch the red zone, and for unwinders the stack ends here. */
    .macro cpuid_stub i, before:vararg
    .org loader_cpuid_stubs+80*\i, 0xcc /* CPUID_STUB_SIZE */
    .cfi_startproc
    .cfi_undefined %rip
    endbr64
    .byte \before
    leaq -128(%rsp), %rsp
    .cfi_adjust_cfa_offset 128
    call cpuid_common
    leaq 128(%rsp), %rsp
    .cfi_adjust_cfa_offset -128
    jmp *loader_state+32+8*\i(%rip) /* cpuid_return */
    .cfi_endproc
    .endm

    .globl loader_cpuid_stubs
    .hidden loader_cpuid_stubs
    .type loader_cpuid_stubs, @function
    .p2align 4
loader_cpuid_stubs:
#include "known_stubs.h"
    .size loader_cpuid_stubs, .-loader_cpuid_stubs

/* The registers are pushed in the order of struct cpuid_call. */
    .type cpuid_common, @function
cpuid_common:
    with_registers loader_cpuid, 80, "%r11, %r10, %r9, %r8, %rdi, %rsi, %rdx, %rcx, %rbx, %rax", \
                   "%rax, %rbx, %rcx, %rdx, %rsi, %rdi, %r8, %r9, %r10, %r11"
    .size cpuid_common, .-cpuid_common

    .section .note.GNU-stack, "", @progbits
