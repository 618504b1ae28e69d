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
    .globl mvld_moved_code
    .type mvld_moved_code, @object
mvld_moved_code:
    .skip 2048, 0xcc
    .size mvld_moved_code, .-mvld_moved_code
    .globl mvld_moved_frames
    .type mvld_moved_frames, @object
mvld_moved_frames:
    .skip 4, 0xcc
    .size mvld_moved_frames, .-mvld_moved_frames
    .section .note.GNU-stack, "", @progbits
