/* SPDX-License-Identifier: MIT
 *
 * Callers of decide (part_function.S) that are decided where they stand: inline calls.
 *
 *     int inline_NAME(void)    the arms give 5000 and 5001, for mode 0 and 1; the call what decide gives
 *     inline_site_NAME         the jump
 */
#include "descriptors.h"

.macro inline_caller name:req, skip=0
    .balign 16
function inline_\name
    sub $8, %rsp
    .balign 8
    .skip \skip, 0x90
    .globl inline_site_\name
    .hidden inline_site_\name
inline_site_\name:
    .byte 0xe9                   # jmp .Lgeneric
    .long .Lgeneric_\name - . - 4
.Larm_0_\name:
    mov $5000, %eax
.Ljoin_\name:
    add $8, %rsp
    ret
.Larm_1_\name:
    mov $5001, %eax
    jmp .Ljoin_\name
.Lgeneric_\name:
    .balign 8
.Lcall_\name:
    call decide@PLT
    site .Lcall_\name, decide
    jmp .Ljoin_\name
    .size inline_\name, . - inline_\name
.endm

/* Flags 4: a call of `callee`, in a slot; 6: directly. */
.macro inline_record name:req, pad, body, callee=decide@GOTPCREL, arm, flags=4
    .pushsection multiverse_functions,"a",@progbits
    .balign 8
.Lrecord_\name:
    .long .Lrecord_end_\name - .Lrecord_\name
    .short \flags
    .short .Lrecord_name_\name - .Lrecord_\name
    .short 2, 2
    .long \body - .
    .long \pad - .
    .long \callee
    .long .Larm_0_\name - ., 0
    .short 0, 1, 0, 0
    .ifb \arm
    .long .Larm_1_\name - ., 0
    .else
    .long \arm - ., 0
    .endif
    .short 1, 1, 0, 0
    guard mode, 4, SIGNED, 0, 0
    guard mode, 4, SIGNED, 1, 1
    end_record \name
.endm

    inline_caller good
    inline_record good, inline_site_good, .Lgeneric_good
    inline_caller across, 6      # the instruction crosses an aligned word
    inline_record across, inline_site_across, .Lgeneric_across
    inline_caller none           # calls what is no variation point
    inline_record none, inline_site_none, .Lgeneric_none, plain@GOTPCREL
    inline_caller no_jump
    inline_record no_jump, .Larm_0_no_jump, .Lgeneric_no_jump
    inline_caller elsewhere      # the jump leads to another place than the record
    inline_record elsewhere, inline_site_elsewhere, .Ljoin_elsewhere
    inline_caller half           # no function
    inline_record half, inline_site_half, .Lgeneric_half, 0
    inline_caller outside
    inline_record outside, inline_site_outside, .Lgeneric_outside, arm=mode
    inline_caller slot
    inline_record slot, inline_site_slot, .Lgeneric_slot, 0x7ffffff0
    inline_caller both           # a function pointer, too
    inline_record both, inline_site_both, .Lgeneric_both, flags=5

    .balign 16
function inline_branch           # decided without a call, by the switch
    mov mode@GOTPCREL(%rip), %rax
    cmpl $0, (%rax)
    .balign 8
    .globl inline_site_branch
    .hidden inline_site_branch
inline_site_branch:
    .byte 0x0f, 0x85             # jne .Larm_1_branch
    .long .Larm_1_branch - . - 4
.Larm_0_branch:
    mov $5000, %eax
.Ljoin_branch:
    ret
.Larm_1_branch:
    mov $5001, %eax
    jmp .Ljoin_branch
    .size inline_branch, . - inline_branch
    inline_record branch, inline_site_branch, .Larm_1_branch, flags=12
    inline_caller no_branch      # but the jump to a call
    inline_record no_branch, inline_site_no_branch, .Lgeneric_no_branch, flags=12
    inline_caller branch_alone   # and no inline call
    inline_record branch_alone, inline_site_branch_alone, inline_branch_alone, 0, flags=8

    .globl plain
    .type plain, @function
plain:
    mov $7, %eax
    ret
    .size plain, . - plain
    note
