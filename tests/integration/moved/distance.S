/* SPDX-License-Identifier: MIT
 *
 * intptr_t NAME(void): how far from its place in the file this function runs.
 */
#define JOIN(a, b) a##b
#define SITES(name) JOIN(name, _sites)
#define FUNCTIONS(name) JOIN(name, _functions)
    .text
    .type return_address, @function
return_address:
    .cfi_startproc
    mov (%rsp), %rax
    ret
    .cfi_endproc
    .size return_address, . - return_address

    .balign 16
    .globl NAME
    .type NAME, @function
NAME:
.Loriginal:
    .cfi_startproc
    endbr64
    call return_address
.Lhere:
    lea .Loriginal(%rip), %rcx
    sub %rcx, %rax
    sub $.Lhere - .Loriginal, %rax
    ret
    .cfi_endproc
    .size NAME, . - NAME

/* const struct multiverse_callsite *SITES[2], const char *FUNCTIONS[2]: what the object recorded. */
    .hidden __start_multiverse_callsites, __stop_multiverse_callsites
    .hidden __start_multiverse_functions, __stop_multiverse_functions
    .section .data.rel.ro,"aw"
    .balign 8
    .globl SITES(NAME)
    .type SITES(NAME), @object
SITES(NAME):
    .quad __start_multiverse_callsites, __stop_multiverse_callsites
    .size SITES(NAME), . - SITES(NAME)
    .globl FUNCTIONS(NAME)
    .type FUNCTIONS(NAME), @object
FUNCTIONS(NAME):
    .quad __start_multiverse_functions, __stop_multiverse_functions
    .size FUNCTIONS(NAME), . - FUNCTIONS(NAME)
    .section .note.GNU-stack,"",@progbits
