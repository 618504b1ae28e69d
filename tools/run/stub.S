/* SPDX-License-Identifier: MIT
 *
 * stub.S: what `mvld run` writes over the entry of a program's interpreter (loader/start/exchange.h).
 *
 * It runs there with the registers as the kernel leaves them for a new program.  It maps the first segment of our
 * file where the kernel finds room, and goes on in it.  Behind the first two bytes stands the address of the
 * struct exchange.
 */
#include "loader/start/exchange.h"

    .section .rodata
    .globl run_stub
    .globl run_stub_end
    .globl run_stub_failed
    .hidden run_stub
    .hidden run_stub_end
    .hidden run_stub_failed
run_stub:
    movabsq $0, %rbx        /* RUN_STUB_ADDRESS */
    movl $-100, %edi        /* AT_FDCWD */
    leaq EXCHANGE_PATH(%rbx), %rsi
    movl $0x80000, %edx     /* O_RDONLY|O_CLOEXEC */
    movl $257, %eax         /* SYS_openat */
    syscall
    movl %eax, %r12d
    testl %eax, %eax
    js failed
    xorl %edi, %edi
    movq EXCHANGE_TEXT(%rbx), %rsi
    movl $5, %edx           /* PROT_READ|PROT_EXEC */
    movl $2, %r10d          /* MAP_PRIVATE */
    movl %r12d, %r8d
    xorl %r9d, %r9d
    movl $9, %eax           /* SYS_mmap */
    syscall
    testq %rax, %rax
    js failed
    movq EXCHANGE_ENTER(%rbx), %rcx
    addq %rax, %rcx
    jmp *%rcx
failed:
    testl %r12d, %r12d
    js run_stub_failed
    movl %r12d, %edi
    movl $3, %eax           /* SYS_close */
    syscall
run_stub_failed:
    nop                     /* int3 for a tracer that stays (follow.c) */
    movl $2, %edi
    leaq sentence(%rip), %rsi
    movl $(sentence_end - sentence), %edx
    movl $1, %eax           /* SYS_write */
    syscall
    movl $127, %edi
    movl $231, %eax         /* SYS_exit_group */
    syscall
sentence:
    .ascii "mvld run: the loader's file cannot be opened or mapped\n"
sentence_end:
run_stub_end:

    .section .note.GNU-stack, "", @progbits
