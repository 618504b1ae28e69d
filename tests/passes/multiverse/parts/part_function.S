/* SPDX-License-Identifier: MIT
 *
 * The variation point of the common fixture.
 *
 *     int decide(void)     100 + mode
 *     variants             mode == 0: 1000, one instruction
 *                          mode == 1: 1001, two instructions
 *                          2 <= mode <= 9: nothing but ret, leaves eax
 */
#include "descriptors.h"
#ifdef PROTECTED
    .protected decide
#endif
#ifdef HIDDEN
    .hidden decide
#endif
    .balign 16
function decide
.Ldecide:
    endbr64
    pad_nop
    mov mode@GOTPCREL(%rip), %rax
    mov (%rax), %eax
    add $100, %eax
    ret
    .size decide, . - decide

    .balign 16
    .local decide_0, decide_1, decide_2
decide_0:
    endbr64
    pad_nop
    mov $1000, %eax
    ret
.Lend_0:
    .balign 16
decide_1:
    mov $1000, %eax
    inc %eax
    ret
.Lend_1:
    .balign 16
decide_2:
    endbr64
    ret
.Lend_2:

    record decide, .Ldecide, .Ldecide + 8, 3, 3
    variant decide_0, .Lend_0, 0, 1
    variant decide_1, .Lend_1, 1, 1
    variant decide_2, .Lend_2, 2, 1
    guard mode, 4, SIGNED, 0, 0
    guard mode, 4, SIGNED, 1, 1
    guard mode, 4, SIGNED, 2, 9
    end_record decide
    switch mode, 4, SIGNED
    note
