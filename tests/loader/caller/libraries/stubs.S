/* SPDX-License-Identifier: MIT
 *
 * Room for stubs behind its code, as in the library that brings the region of moved code.
 */
    .text
    .globl caller_stubs /* so that the linker thinks that the library is needed */
    .type caller_stubs, @function
caller_stubs:
    ret
    .size caller_stubs, .-caller_stubs
    .globl concat_code
    .type concat_code, @object
concat_code:
    .skip 2048, 0xcc
    .size concat_code, .-concat_code
    .section .note.GNU-stack, "", @progbits
