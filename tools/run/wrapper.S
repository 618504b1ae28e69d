/* SPDX-License-Identifier: MIT
 *
 * wrapper.S: the start of a wrapper's file (wrapper.c): an ELF file with one segment, without sections.
 *
 * Behind it stand the paths of the program and of mvld-run, each with its NUL.  It executes
 *
 *     mvld-run PROGRAM ARGUMENT...
 *
 * and PROGRAM ARGUMENT... where that is impossible, or MVLD=off.  A shell would take ten times as long.  It
 * lies in .rodata: mvld itself never runs it.
 */

#define ADDRESS 0x400000

    .section .rodata
    .globl run_wrapper
    .globl run_wrapper_end
    .hidden run_wrapper
    .hidden run_wrapper_end
    .balign 8
run_wrapper:                    /* Elf64_Ehdr */
    .ascii "\177ELF\2\1\1\0\0\0\0\0\0\0\0\0"
    .short 2, 62                /* ET_EXEC, EM_X86_64 */
    .long 1                     /* EV_CURRENT */
    .quad ADDRESS + (entry - run_wrapper)
    .quad 64, 0                 /* e_phoff, e_shoff */
    .long 0
    .short 64, 56, 2, 0, 0, 0   /* e_ehsize, e_phentsize, e_phnum */
    .long 1, 5                  /* PT_LOAD, PF_R|PF_X */
    .quad 0, ADDRESS, ADDRESS
    .quad 0, 0                  /* p_filesz, p_memsz: wrapper.c sets them */
    .quad 0x1000
    .long 0x6474e551, 6         /* PT_GNU_STACK, PF_R|PF_W */
    .quad 0, 0, 0, 0, 0, 16

entry:
    leaq program(%rip), %rbx /* PROGRAM */
    movq %rbx, %rbp
1:  incq %rbp
    cmpb $0, -1(%rbp)           /* then mvld-run */
    jne 1b
    movq (%rsp), %rcx           /* argc */
    leaq 16(%rsp,%rcx,8), %rdx  /* environ */
    testq %rcx, %rcx
    jz plain                    /* no argv[0] to replace: Linux before 5.18 */
    movabsq $0x66666f3d444c564d, %rax /* MVLD=off */
    movq %rdx, %rsi
2:  movq (%rsi), %rdi
    addq $8, %rsi
    testq %rdi, %rdi
    jz mvld
    cmpq %rax, (%rdi)           /* behind the last string the stack has more than 8 bytes */
    jne 2b
    cmpb $0, 8(%rdi)
    jne 2b
    jmp named
mvld:
    movq %rbp, (%rsp)           /* over argc: argv becomes mvld-run, PROGRAM, ARGUMENT... */
    movq %rbx, 8(%rsp)
    movq %rbp, %rdi
    movq %rsp, %rsi
    movl $59, %eax              /* SYS_execve */
    syscall
named:
    movq %rbx, 8(%rsp)
plain:
    movq %rbx, %rdi
    leaq 8(%rsp), %rsi
    movl $59, %eax              /* SYS_execve */
    syscall
    xorl %r12d, %r12d
    cmpl $-2, %eax              /* -ENOENT */
    sete %r12b
    movl $2, %edi
    movq %rbx, %rsi
    subq %rbx, %rbp
    leal -1(%rbp), %edx
    movl $1, %eax               /* SYS_write */
    syscall
    leaq sentence(%rip), %rsi
    movl $(sentence_end - sentence), %edx
    movl $1, %eax               /* SYS_write */
    syscall
    leal 126(%r12), %edi        /* as a shell: 127 if there is no PROGRAM */
    movl $231, %eax             /* SYS_exit_group */
    syscall
sentence:
    .ascii ": cannot be executed\n"
sentence_end:
    /* wrapper.c knows a wrapper by this. */
    .ascii "\n# made by `mvld enable'; `mvld disable' removes it\n# starts "
program:
run_wrapper_end:

    .section .note.GNU-stack, "", @progbits
