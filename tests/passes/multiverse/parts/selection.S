/* SPDX-License-Identifier: MIT
 *
 * Fixture of multiverse/selection.c: functions that return the number of the
 * variant that runs, the generic 0.
 */
#include "descriptors.h"

/* function with a generic and variants 1 … 6 */
.macro choices name:req
    .balign 16
function \name
.Lbody_\name:
    pad_nop
    xor %eax, %eax
    ret
    .irp i, 1, 2, 3, 4, 5, 6
.Lv_\name\()_\i:
    mov $\i, %eax
    nop                          # two instructions: called, not copied
    ret
.Le_\name\()_\i:
    .endr
    .balign 16
    .globl call_\name
call_\name:
    sub $8, %rsp
    .balign 8
.Lsite_\name:
    call \name@PLT
    site .Lsite_\name, \name
    add $8, %rsp
    ret
.endm

.macro variable name:req, width:req, flags:req
    .pushsection .data
    .globl \name
    .balign 8
    .type \name, @object
    .size \name, \width
\name:
    .quad 0
    .popsection
    switch \name, \width, \flags|DEFINED
.endm

.macro choice name:req, number:req, first:req, count:req
    variant .Lv_\name\()_\number, .Le_\name\()_\number, \first, \count
.endm

    variable s8, 1, SIGNED
    variable u8, 1, 0
    variable s16, 2, SIGNED
    variable u16, 2, 0
    variable s32, 4, SIGNED
    variable u32, 4, 0
    variable s64, 8, SIGNED
    variable u64, 8, 0
    variable watched, 4, SIGNED|TRACKED

    /* 1: the value -1, or all ones; 2: the least; 3: the greatest of the signed */
    .irp bits, 8, 16, 32, 64
    choices f_s\bits
    record f_s\bits, .Lbody_f_s\bits, .Lbody_f_s\bits, 3, 3
    choice f_s\bits, 1, 0, 1
    choice f_s\bits, 2, 1, 1
    choice f_s\bits, 3, 2, 1
    guard s\bits, \bits/8, SIGNED, -1, -1
    guard s\bits, \bits/8, SIGNED, -(1<<(\bits-1)), -(1<<(\bits-1))
    guard s\bits, \bits/8, SIGNED, (1<<(\bits-1))-1, (1<<(\bits-1))-1
    end_record f_s\bits

    choices f_u\bits
    record f_u\bits, .Lbody_f_u\bits, .Lbody_f_u\bits, 3, 3
    choice f_u\bits, 1, 0, 1
    choice f_u\bits, 2, 1, 1
    choice f_u\bits, 3, 2, 1
    guard u\bits, \bits/8, 0, 0xffffffffffffffff>>(64-\bits), 0xffffffffffffffff>>(64-\bits)
    guard u\bits, \bits/8, 0, (1<<(\bits-1)), (1<<(\bits-1))
    guard u\bits, \bits/8, 0, 1, (1<<(\bits-1))-1
    end_record f_u\bits
    .endr

    /* Which is the most specific?  s32 and u32. */
    choices specific
    record specific, .Lbody_specific, .Lbody_specific, 6, 8
    choice specific, 1, 0, 1     # s32 in 0 … 100
    choice specific, 2, 1, 1     # s32 in 10 … 20
    choice specific, 3, 2, 1     # s32 in 15 … 25, as narrow but later
    choice specific, 4, 3, 2     # s32 in 0 … 100 and u32 == 7: more guards
    choice specific, 5, 5, 2     # s32 == 12 and u32 == 7: narrower still
    choice specific, 6, 7, 1     # s32 == 200
    guard s32, 4, SIGNED, 0, 100
    guard s32, 4, SIGNED, 10, 20
    guard s32, 4, SIGNED, 15, 25
    guard s32, 4, SIGNED, 0, 100
    guard u32, 4, 0, 7, 7
    guard s32, 4, SIGNED, 12, 12
    guard u32, 4, 0, 7, 7
    guard s32, 4, SIGNED, 200, 200
    end_record specific

    /* A tracked switch: 1 fixes it, 2 does not. */
    choices tracking
    record tracking, .Lbody_tracking, .Lbody_tracking, 2, 3
    choice tracking, 1, 0, 2
    choice tracking, 2, 2, 1
    guard watched, 4, SIGNED|TRACKED, 3, 3
    guard s32, 4, SIGNED, 1, 1
    guard s32, 4, SIGNED, 1, 1
    end_record tracking

    /* A switch that nobody defines. */
    .weak nowhere
    choices absent
    record absent, .Lbody_absent, .Lbody_absent, 1, 1
    choice absent, 1, 0, 1
    guard nowhere, 4, 0, 0, 0xffffffff
    end_record absent
    switch nowhere, 4, 0
    note
