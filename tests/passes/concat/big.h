/* SPDX-License-Identifier: MIT
 *
 * big.h: some 9 MB of code in functions of 300 bytes, which nobody runs.
 */
__asm__(".text\n"
        ".p2align 4\n"
        ".rept 30000\n"
        ".cfi_startproc\n"
        ".fill 49, 6, 0x0000441f0f66\n" /* 66 0f 1f 44 00 00  nopw 0(%rax,%rax) */
        "mov %edi, %eax\n"
        "ret\n"
        ".cfi_endproc\n"
        ".p2align 4\n"
        ".endr\n");
