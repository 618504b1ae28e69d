/* SPDX-License-Identifier: MIT
 *
 * loader/start/entry.S: where others enter us.  Two rooms have entries of their own: host/entry.S, caller/entry.S.
 *
 *   loader_entry        from the kernel, as PT_INTERP or as a program
 *   loader_hook_entry   from the host loader, in place of _dl_debug_state
 *   loader_mmap_sites   from the host loader, in place of an mmap system call
 *   loader_init_thunks  from the host loader, in place of an object's DT_INIT
 *   loader_outside_entry   from a tool, by a thread that it borrows
 *   loader_exchange_entry  from the stub of `mvld run`, in the place of a program's interpreter
 *
 * Each preserves the registers that its caller expects, and the frames are described, so that a debugger
 * that stops in a pass shows the callers.
 */

#include "loader/registers.h"
#include "loader/start/exchange.h"
#include "loader/start/outside.h"

    .text

/* The kernel passes nothing but the block at %rsp.  The C code runs below the block, with space for
 * block_inject to move the block down (BLOCK_MOVES words), and returns the host loader's entry in %rax and
 * the block in %rdx.  The host loader then finds all other registers zero, as after the kernel. */
    .globl loader_entry
    .hidden loader_entry
    .type loader_entry, @function
loader_entry:
    .cfi_startproc
    .cfi_undefined %rip
    endbr64
    xorl %ebp, %ebp
    movq %rsp, %rbx
    leaq -256(%rsp), %rsp
    andq $-16, %rsp
    call loader_relocate
    leaq loader_state(%rip), %rdi
    movq %rbx, %rsi
    call loader_start
    movq %rdx, %rsp
    xorl %ebx, %ebx
    xorl %ecx, %ecx
    xorl %edx, %edx
    xorl %esi, %esi
    xorl %edi, %edi
    xorl %r8d, %r8d
    xorl %r9d, %r9d
    xorl %r10d, %r10d
    xorl %r11d, %r11d
    xorl %r12d, %r12d
    xorl %r13d, %r13d
    xorl %r14d, %r14d
    xorl %r15d, %r15d
    jmp *%rax
    .cfi_endproc
    .size loader_entry, .-loader_entry

/* From tools/run/stub.S: %rbx is a struct exchange, %rax the present address of our text, %r12d our file.
 * The C code returns our entry at the interpreter's addresses, and this code jumps to its own copy there,
 * which unmaps the present one.  If it returns zero, the interpreter starts as after the kernel. */
    .globl loader_exchange_entry
    .hidden loader_exchange_entry
    .type loader_exchange_entry, @function
loader_exchange_entry:
    .cfi_startproc
    .cfi_undefined %rip
    endbr64
    movq %rbx, %rsp
    movq %rax, %rbp
    movq %rbx, %rdi
    movl %r12d, %esi
    call loader_exchange
    testq %rax, %rax
    jz 1f
    leaq loader_exchanged(%rip), %rdx
    leaq loader_entry(%rip), %rcx
    subq %rcx, %rdx
    addq %rdx, %rax
    jmp *%rax
1:  movq EXCHANGE_STACK(%rbx), %rsp
    movq EXCHANGE_ENTRY(%rbx), %rax
    movq %rax, -8(%rsp)
    .irp reg, %eax, %ebx, %ecx, %edx, %esi, %edi, %ebp, %r8d, %r9d, %r10d, %r11d, %r12d
    xorl \reg, \reg
    .endr
    jmp *-8(%rsp)
loader_exchanged:
    endbr64
    movl $11, %eax /* SYS_munmap */
    movq %rbp, %rdi
    movq EXCHANGE_TEXT(%rbx), %rsi
    syscall
    movq EXCHANGE_STACK(%rbx), %rsp
    jmp loader_entry
    .cfi_endproc
    .size loader_exchange_entry, .-loader_exchange_entry

/* _dl_debug_state has no parameters, no result and an empty body, so a compiler that sees the body may use
 * any register across the call.  So all integer registers are preserved (the C code uses no others). */
    .globl loader_hook_entry
    .hidden loader_hook_entry
    .type loader_hook_entry, @function
    .p2align 4
loader_hook_entry:
    .cfi_startproc
    endbr64
    keep
    cld
    leaq loader_state(%rip), %rdi
    call loader_event
    restore
    ret
    .cfi_endproc
    .size loader_hook_entry, .-loader_hook_entry

/* Site i of the host loader was
 *
 *     b8 09 00 00 00    movl $9, %eax       ; SYS_mmap
 *     0f 05             syscall
 *
 * and its first byte now jumps here.  Like the kernel this code preserves everything but %rax, %rcx and
 * %r11, and does not touch the red zone.  The six arguments are pushed in the order of struct mmap_call.
 * There is no return address on the stack, so for an unwinder the stack ends here: better than invented
 * frames. */
    .globl loader_mmap_sites
    .hidden loader_mmap_sites
    .type loader_mmap_sites, @function
    .p2align 6
loader_mmap_sites:
    .set site, 0
    .rept 4 /* MMAP_SITES */
    .p2align 6 /* MMAP_SITE_SIZE */
    .cfi_startproc
    .cfi_undefined %rip
    endbr64
    leaq -128(%rsp), %rsp
    .cfi_adjust_cfa_offset 128
    call mmap_common
    leaq 128(%rsp), %rsp
    .cfi_adjust_cfa_offset -128
    jmp *loader_state+8*site(%rip)
    .cfi_endproc
    .set site, site+1
    .endr
    .size loader_mmap_sites, .-loader_mmap_sites

/* musl's only site, if it has this form, with the same %rdi as there:
 *
 *     b8 09 00 00 00    movl $9, %eax
 *     4c 89 e7          movq %r12, %rdi
 *     0f 05             syscall */
    .globl loader_mmap_musl
    .hidden loader_mmap_musl
    .type loader_mmap_musl, @function
    .p2align 4
loader_mmap_musl:
    .cfi_startproc
    .cfi_undefined %rip
    endbr64
    movq %r12, %rdi
    jmp loader_mmap_sites
    .cfi_endproc
    .size loader_mmap_musl, .-loader_mmap_musl

    .type mmap_common, @function
mmap_common:
    with_registers loader_mmap, 88, "%r15, %r14, %r13, %r12, %rbx, %r9, %r8, %r10, %rdx, %rsi, %rdi", "%rdi, %rsi, %rdx, %r10, %r8, %r9, %rbx, %r12, %r13, %r14, %r15"
    .size mmap_common, .-mmap_common

/* Thunk i replaces the DT_INIT of the object in slot i: it calls mvld, then jumps to the object's own
 * DT_INIT with the same arguments (argc, argv, envp) and stack.
 *
 *     f3 0f 1e fa          endbr64
 *     b8 <i>               movl $i, %eax
 *     e9 <loader_init_common> */
    .globl loader_init_thunks
    .hidden loader_init_thunks
    .type loader_init_thunks, @function
    .p2align 4
loader_init_thunks:
    .set slot, 0
    .rept 512 /* INIT_SLOTS */
    .p2align 4 /* INIT_THUNK_SIZE */
    endbr64
    movl $slot, %eax
    jmp loader_init_common
    .set slot, slot+1
    .endr
    .size loader_init_thunks, .-loader_init_thunks

    .globl loader_init_common
    .hidden loader_init_common
    .type loader_init_common, @function
    .p2align 4
loader_init_common:
    .cfi_startproc
    endbr64
    .irp reg, %rdi, %rsi, %rdx
    pushq \reg
    .cfi_adjust_cfa_offset 8
    .endr
    leaq loader_state(%rip), %rdi
    movl %eax, %esi
    call loader_init
    .irp reg, %rdx, %rsi, %rdi
    popq \reg
    .cfi_adjust_cfa_offset -8
    .endr
    jmp *%rax
    .cfi_endproc
    .size loader_init_common, .-loader_init_common

    .globl loader_no_init
    .hidden loader_no_init
    .type loader_no_init, @function
    .p2align 4
loader_no_init:
    .cfi_startproc
    endbr64
    ret
    .cfi_endproc
    .size loader_no_init, .-loader_no_init

/* From tools (loader/start/outside.h). */
    .globl loader_outside_entry
    .hidden loader_outside_entry
    .type loader_outside_entry, @function
loader_outside_entry:
    .cfi_startproc
    endbr64
    leaq loader_state(%rip), %rcx
    jmp loader_moved
    .cfi_endproc
    .size loader_outside_entry, .-loader_outside_entry

/* How one mvld knows another, so as never to take it for the host loader. */
    .section .note.mvld.stage0, "a", @note
    .p2align 2
    .long 5, 4, 1 /* name size, descriptor size, type: stage 0 */
    .asciz "mvld"
    .p2align 2
    .long 1 /* version */
    .long 5, 4, EXCHANGE_NOTE
    .asciz "mvld"
    .p2align 2
    .long loader_exchange_entry - .
    .long 5, 4, OUTSIDE_NOTE
    .asciz "mvld"
    .p2align 2
    .long loader_outside_entry - .

    .section .note.GNU-stack, "", @progbits
