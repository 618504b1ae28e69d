/* SPDX-License-Identifier: MIT
 *
 * A library with one switch, one variation point and one call, whose descriptors
 * are right unless a macro says otherwise: multiverse/bad.c opens it.
 *
 *     int call_bad(void)    calls bad(), which gives 100 + bad_switch
 */
#ifndef VERSION
# define VERSION 1
#endif
#ifndef FUNCTIONS_END
# define FUNCTIONS_END 0
#endif
#ifndef SITES_END
# define SITES_END 0
#endif
#ifndef SWITCHES_END
# define SWITCHES_END 0
#endif
#ifndef FUNCTION_SIZE
# define FUNCTION_SIZE .Lfunction_end - .Lfunction
#endif
#ifndef FLAGS
# define FLAGS 0
#endif
#ifndef N_VARIANTS
# define N_VARIANTS 1
#endif
#ifndef N_GUARDS
# define N_GUARDS 1
#endif
#ifndef NAME
# define NAME .Lfunction_name - .Lfunction
#endif
#ifndef BODY
# define BODY .Lbad - .
#endif
#ifndef PAD
# define PAD .Lbad - .
#endif
#ifndef POINTER
# define POINTER 0
#endif
#ifndef VARIANT
# define VARIANT .Lvariant - .
#endif
#ifndef VARIANT_SIZE
# define VARIANT_SIZE .Lvariant_end - .Lvariant
#endif
#ifndef FIRST_GUARD
# define FIRST_GUARD 0
#endif
#ifndef VARIANT_NAME
# define VARIANT_NAME 0
#endif
#ifndef GUARD_SLOT
# define GUARD_SLOT bad_switch@GOTPCREL
#endif
#ifndef GUARD_WIDTH
# define GUARD_WIDTH 4
#endif
#ifndef LOW
# define LOW 0
#endif
#ifndef SWITCH_SIZE
# define SWITCH_SIZE .Lswitch_end - .Lswitch
#endif
#ifndef SWITCH_WIDTH
# define SWITCH_WIDTH 4
#endif
#ifndef SWITCH_NAME
# define SWITCH_NAME .Lswitch_name - .Lswitch
#endif
#ifndef SWITCH_SLOT
# define SWITCH_SLOT bad_switch@GOTPCREL
#endif
#ifndef SITE
# define SITE .Lsite - .
#endif
#ifndef CALLEE
# define CALLEE bad@GOTPCREL
#endif
#ifndef NOP_AT_ENTRY
# define NOP_AT_ENTRY .byte 0x0f, 0x1f, 0x44, 0x00, 0x00
#endif

    .data
    .globl bad_switch
    .balign 8
bad_switch:
.Lbad_switch:
    .quad 0

    .text
    .balign 16
    .globl bad
    .type bad, @function
bad:
.Lbad:
    NOP_AT_ENTRY
    mov bad_switch@GOTPCREL(%rip), %rax
    mov (%rax), %eax
    add $100, %eax
    ret
    .balign 16
.Lvariant:
    mov $1000, %eax
    ret
.Lvariant_end:
    .globl call_bad
    .type call_bad, @function
call_bad:
    sub $8, %rsp
    .balign 8
.Lsite:
#ifdef LONG_SITE
    .byte 0x67
#endif
    call bad@PLT
    add $8, %rsp
    ret

    .section multiverse_functions,"a",@progbits
    .balign 8
.Lfunction:
    .long FUNCTION_SIZE
    .short FLAGS, NAME
    .short N_VARIANTS, N_GUARDS
    .long BODY
    .long PAD
    .long POINTER
    .long VARIANT
    .long VARIANT_SIZE
    .short FIRST_GUARD, 1
    .short VARIANT_NAME, 0
    .long GUARD_SLOT
    .byte GUARD_WIDTH, 1
    .short 0
    .quad LOW, 0
.Lfunction_name:
    .asciz "bad"
    .balign 8
.Lfunction_end:

    .section multiverse_switches,"a",@progbits
    .balign 8
.Lswitch:
    .long SWITCH_SIZE
    .byte SWITCH_WIDTH, 5
    .short SWITCH_NAME
    .long SWITCH_SLOT
    .long 0
.Lswitch_name:
    .asciz "bad_switch"
    .balign 8
.Lswitch_end:

    .section multiverse_callsites,"ao",@progbits,.text
    .balign 4
    .long SITE
    .long CALLEE
#ifdef SECOND_SITE
    .long SECOND_SITE
    .long CALLEE
#endif

    .hidden __start_multiverse_functions, __stop_multiverse_functions
    .hidden __start_multiverse_callsites, __stop_multiverse_callsites
    .hidden __start_multiverse_switches, __stop_multiverse_switches
    .section .note.multiverse,"a",@note
    .balign 4
#ifdef NOTE_SIZE
    .long 11, NOTE_SIZE, 1
#else
    .long 11, 28, 1
#endif
    .asciz "Multiverse"
    .balign 4
    .long VERSION
    .long __start_multiverse_functions - ., __stop_multiverse_functions - . + FUNCTIONS_END
    .long __start_multiverse_callsites - ., __stop_multiverse_callsites - . + SITES_END
    .long __start_multiverse_switches - ., __stop_multiverse_switches - . + SWITCHES_END
    .section .note.GNU-stack,"",@progbits
