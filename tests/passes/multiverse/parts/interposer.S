/* SPDX-License-Identifier: MIT
 *
 * A `decide` without descriptors, and a caller that records its call to it. */
    .text
    .globl decide
    .type decide, @function
decide:
    mov $5, %eax
    ret
    .section .note.GNU-stack,"",@progbits
