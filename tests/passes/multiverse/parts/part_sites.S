/* SPDX-License-Identifier: MIT
 *
 * The call sites of the common fixture: one caller an encoding.  Each sets eax
 * to 77 first, so that the empty variant can be told.
 *
 *     const struct { const char *name; int (*call)(void); unsigned char *site; } callers[]
 */
#include "descriptors.h"
#ifdef HIDDEN
    .hidden decide
#endif
#ifdef DIRECT
# define FAR decide
#else
# define FAR decide@PLT
#endif

.macro caller name:req
    .pushsection .data.rel.ro,"aw"
    .quad .Lname_\name, call_\name, .Lsite_\name
    .popsection
    .pushsection .rodata
.Lname_\name:
    .asciz "\name"
    .popsection
    .balign 16
call_\name:
    sub $8, %rsp
    mov $77, %eax
.endm
.macro jumper name:req
    .pushsection .data.rel.ro,"aw"
    .quad .Lname_\name, call_\name, .Lsite_\name
    .popsection
    .pushsection .rodata
.Lname_\name:
    .asciz "\name"
    .popsection
    .balign 16
call_\name:
    mov $77, %eax
.endm
.macro done
    add $8, %rsp
    ret
.endm

    .section .data.rel.ro,"aw"
    .balign 8
    .globl callers
    .type callers, @object
callers:
    .text

    caller e8
    .balign 8
.Lsite_e8:
    call FAR
    site .Lsite_e8, decide
    done

    jumper e9
    .balign 8
.Lsite_e9:
    jmp FAR
    site .Lsite_e9, decide

    caller ff15
    .balign 8
.Lsite_ff15:
    .byte 0xff, 0x15             # call *decide@GOTPCREL(%rip), never relaxed
    .long decide@GOTPCREL - 4
    site .Lsite_ff15, decide
    done

    jumper ff25
    .balign 8
.Lsite_ff25:
    .byte 0xff, 0x25
    .long decide@GOTPCREL - 4
    site .Lsite_ff25, decide

    caller relaxable
    .balign 8
.Lsite_relaxable:                # ff 15, or 67 e8 when the linker knows better
    call *decide@GOTPCREL(%rip)
    site .Lsite_relaxable, decide
    done

    jumper relaxable_jump
    .balign 8
.Lsite_relaxable_jump:           # ff 25, or e9 … 90
    jmp *decide@GOTPCREL(%rip)
    site .Lsite_relaxable_jump, decide

    caller 67e8
    .balign 8
.Lsite_67e8:
    .byte 0x67
    call FAR
    site .Lsite_67e8, decide
    done

    caller 90e8                  # what mold 2.30 makes of call *decide@GOTPCREL(%rip)
    .balign 8
.Lsite_90e8:
    nop
    call FAR
    site .Lsite_90e8, decide
    done

    caller across                # the instruction crosses an aligned word
    .balign 8
    .skip 6, 0x90
.Lsite_across:
    call FAR
    site .Lsite_across, decide
    site .Lsite_across, decide   # recorded twice
    done

#ifdef SHORT
    jumper eb
    .balign 8
    jmp .Lsite_eb
    .balign 8
.Lsite_eb:
    .byte 0xeb, .Lnear - . - 1, 0xcc, 0xcc, 0xcc
    site .Lsite_eb, near
    .balign 16
    .globl near
    .type near, @function
    .hidden near
near:
.Lnear:
    pad_nop
    mov $100, %eax
    mov mode@GOTPCREL(%rip), %rcx
    add (%rcx), %eax
    ret
    .balign 16
near_0:
    mov $1000, %eax
    ret
.Lnear_0_end:
near_1:
    mov $1001, %eax
    nop
    ret
.Lnear_1_end:
near_2:
    ret
.Lnear_2_end:
    record near, near, near, 3, 3
    variant near_0, .Lnear_0_end, 0, 1
    variant near_1, .Lnear_1_end, 1, 1
    variant near_2, .Lnear_2_end, 2, 1
    guard mode, 4, SIGNED, 0, 0
    guard mode, 4, SIGNED, 1, 1
    guard mode, 4, SIGNED, 2, 9
    end_record near
    switch mode, 4, SIGNED
#endif

    .section .data.rel.ro,"aw"
    .quad 0, 0, 0
    .size callers, . - callers
    note
