/* SPDX-License-Identifier: MIT
 *
 * SITES call sites, five a caller, to sixteen variation points of one switch.
 * With PAGED each caller has a page of its own; else they lie densely.
 */
#include "../../tests/passes/multiverse/parts/descriptors.h"
#ifdef PAGED
# define CALLER_ALIGN 4096
#else
# define CALLER_ALIGN 16
#endif

    .data
    .globl config
    .type config, @object
    .size config, 4
    .balign 4
config:
    .long 0
    switch config, 4, SIGNED|DEFINED

    .text
    /* Functions whose variants are too long for a site. */
    .irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    .balign 16
    .local point_\i
point_\i:
    pad_nop
    mov config(%rip), %eax
    ret
    .balign 16
zero_\i:
    xor %eax, %eax
    nop
    ret
.Lzero_end_\i:
    .balign 16
one_\i:
    mov $1, %eax
    nop
    ret
.Lone_end_\i:
    record point_\i, point_\i, point_\i, 2, 2
    variant zero_\i, .Lzero_end_\i, 0, 1
    variant one_\i, .Lone_end_\i, 1, 1
    guard config, 4, SIGNED, 0, 0
    guard config, 4, SIGNED, 1, 1
    end_record point_\i
    .endr

.macro bench_site point
    .balign 8
.Lsite\@:
    call \point
    site .Lsite\@, \point
.endm

    .altmacro
.macro next_site
    bench_named %(at%16)
    .set at, at+1
.endm
.macro bench_named number
    bench_site point_\number
.endm

    .set at, 0
    .balign 4096
    .globl sites_start, sites_end
sites_start:
    .rept SITES/5
    .balign CALLER_ALIGN
    sub $8, %rsp
    .rept 5
    next_site
    .endr
    add $8, %rsp
    ret
    .endr
    .balign CALLER_ALIGN
    .rept SITES-SITES/5*5
    next_site
    .endr
    ret
    .balign 4096
sites_end:
    note
