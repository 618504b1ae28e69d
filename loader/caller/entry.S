/* SPDX-License-Identifier: MIT
 *
 * loader/caller/entry.S: from stubs at functions of the C library and of the unwinder (caller_stub_*).
 */
#include "loader/registers.h"

    .text

/* Stubs (caller/hooks.c) come here before a function runs, or when it has run.  One register is
 * exchanged; everything else that may hold an argument or a result is kept.
 *   caller_stub_entry    called: the first argument is an address
 *   caller_stub_caller   called: the third one is
 *   caller_stub_fourth   called: the fourth one is
 *   caller_stub_place    called: the second one is, for the context in the first
 *   caller_stub_result   jumped to: the result is an address
 *   caller_stub_symbol   jumped to: it is that of a symbol
 *   caller_stub_named    jumped to: the first argument was an address, the second one says
 *                           where the answer lies; the result stays as it is
 * `exchanged` is where keep has put the register, `above` what aligns the stack, `ask` what
 * gives `function` its arguments behind the state. */
    .macro caller_stub name, function, exchanged, above, ask
    .globl caller_stub_\name
    .hidden caller_stub_\name
    .type caller_stub_\name, @function
    .p2align 4
caller_stub_\name:
    .cfi_startproc
    endbr64
    leaq -\above(%rsp), %rsp
    .cfi_adjust_cfa_offset \above
    keep
    \ask
    leaq loader_state(%rip), %rdi
    call \function
    movq %rax, \exchanged(%rsp)
    restore
    leaq \above(%rsp), %rsp
    .cfi_adjust_cfa_offset -\above
    ret
    .cfi_endproc
    .size caller_stub_\name, .-caller_stub_\name
    .endm

    caller_stub entry, loader_caller_address, KEPT_RDI, 8, "movq %rdi, %rsi"
    caller_stub caller, loader_caller_address, KEPT_RDX, 8, "movq %rdx, %rsi"
    caller_stub fourth, loader_caller_address, KEPT_RCX, 8, "movq %rcx, %rsi"
    caller_stub place, loader_caller_place, KEPT_RSI, 8, "movq %rsi, %rdx; movq %rdi, %rsi"
    caller_stub result, loader_caller_address, KEPT_RAX, 0, "movq %rax, %rsi"
    caller_stub symbol, loader_caller_symbol, KEPT_RAX, 0, "movq %rax, %rsi"
    caller_stub named, loader_caller_named, KEPT_RAX, 0, \
        "movq %rax, %rcx; movq %rsi, %rdx; movq %rdi, %rsi"

    .section .note.GNU-stack, "", @progbits
