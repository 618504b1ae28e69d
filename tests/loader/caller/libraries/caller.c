/* SPDX-License-Identifier: MIT
 *
 * A library that asks the C library about itself, from its original code and from moved code
 * that the test makes: caller_call runs anywhere.  It finds caller_dlopened by its own
 * RUNPATH alone, and caller_name in the library behind it.
 */
const char *caller_name(void);

/* Calls function(a, b, c, d); the return address is in here. */
__asm__(".text\n"
        ".p2align 6\n"
        ".globl caller_call\n"
        ".type caller_call, @function\n"
        "caller_call:\n"
        "  .cfi_startproc\n"
        "  sub $8, %rsp\n"
        "  .cfi_adjust_cfa_offset 8\n"
        "  mov %rdi, %rax\n"
        "  mov %rsi, %rdi\n"
        "  mov %rdx, %rsi\n"
        "  mov %rcx, %rdx\n"
        "  mov %r8, %rcx\n"
        "  call *%rax\n"
        "  add $8, %rsp\n"
        "  .cfi_adjust_cfa_offset -8\n"
        "  ret\n"
        "  .cfi_endproc\n"
        ".size caller_call, . - caller_call\n"
        "  .p2align 6\n");

const char *caller_name(void)
{
    return "the caller's";
}
