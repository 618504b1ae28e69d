/* SPDX-License-Identifier: MIT
 *
 * loader/entry.S: where others enter us.
 *
 *   loader_entry        from the kernel, as PT_INTERP or as a program
 *   loader_hook_entry   from the host loader, in place of _dl_debug_state
 *   loader_mmap_sites   from the host loader, in place of an mmap system call
 *   loader_cpuid_stubs  from the host loader, in place of a cpuid
 *   loader_init_thunks  from the host loader, in place of an object's DT_INIT
 *   loader_outside_entry   from a tool, by a thread that it borrows
 *   loader_exchange_entry  from the stub of `mvld run`, in the place of a program's interpreter
 *   loader_caller_*    from stubs at functions of the C library and of the unwinder
 *
 * Each keeps the registers that its caller expects to keep, and the frames are
 * described, so that a debugger stopped in a pass sees who called.
 */

#include "loader/start/exchange.h"
#include "loader/start/outside.h"

    .text

/* All integer registers that a called function may change, and where some are then. */
    .set KEPT_RAX, 64
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

/* The kernel passes nothing but the block at %rsp.  C runs below it, with room
 * for block_inject to move the block down (BLOCK_MOVES words); it returns the
 * host loader's entry in %rax and the block in %rdx.  The host loader then finds
 * all other registers zero, as the kernel leaves them. */
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

/* From tools/run/stub.S: %rbx is a struct exchange, %rax where our text lies for now, %r12d our file.  What the C
 * code returns is our entry, in the interpreter's place: so this code leaves for its like there, which unmaps what
 * it leaves.  Or zero: the interpreter starts as the kernel would have started it. */
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

/* _dl_debug_state has no parameters, no result and an empty body, and a compiler
 * that knows the body may keep anything in any register across the call: so all
 * integer registers are kept (the C code uses no others). */
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
 * and jumps here from the first byte.  Like the kernel we keep everything but
 * %rax, %rcx and %r11; like the kernel we must not touch the red zone.  The six
 * arguments are pushed in the order of struct mmap_call.  Nobody has pushed a return
 * address, so for an unwinder the stack ends here: rather that than invented frames. */
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

/* musl's only one, where it is of this form, with the same %rdi as there:
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

    .type mmap_common, @function
mmap_common:
    with_registers loader_mmap, 88, "%r15, %r14, %r13, %r12, %rbx, %r9, %r8, %r10, %rdx, %rsi, %rdi", "%rdi, %rsi, %rdx, %r10, %r8, %r9, %rbx, %r12, %r13, %r14, %r15"
    .size mmap_common, .-mmap_common

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

/* Thunk i stands in for the DT_INIT of the object in slot i: it runs us, and
 * goes on to the object's own with the arguments (argc, argv, envp) and the
 * stack as they came.
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
    .rept 128 /* INIT_CHUNK */
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

/* Stubs (caller/hooks.c) come here before a function runs, or when it has run.  One register is
 * exchanged; everything else that may hold an argument or a result is kept.
 *   caller_stub_entry    called: the first argument is an address
 *   caller_stub_caller   called: the third one is
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
    caller_stub place, loader_caller_place, KEPT_RSI, 8, "movq %rsi, %rdx; movq %rdi, %rsi"
    caller_stub result, loader_caller_address, KEPT_RAX, 0, "movq %rax, %rsi"
    caller_stub symbol, loader_caller_symbol, KEPT_RAX, 0, "movq %rax, %rsi"
    caller_stub named, loader_caller_named, KEPT_RAX, 0, \
        "movq %rax, %rcx; movq %rsi, %rdx; movq %rdi, %rsi"

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
