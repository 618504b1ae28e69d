/* SPDX-License-Identifier: MIT
 *
 * tests/passes/multiverse/parts/descriptors.h: macros that write the descriptors of
 * include/mvld/descriptor.h by hand, so that the engine is tested without the
 * compiler plugin.  For .S files.
 */
#define SIGNED 1
#define TRACKED 2
#define DEFINED 4

/* switch SYMBOL, width, flags */
.macro switch symbol:req, width:req, flags=0
    .pushsection multiverse_switches,"a",@progbits
    .balign 8
.Lswitch\@:
    .long .Lswitch_end\@ - .Lswitch\@
    .byte \width, \flags
    .short .Lswitch_name\@ - .Lswitch\@
    .long \symbol@GOTPCREL
    .long 0
.Lswitch_name\@:
    .asciz "\symbol"
    .balign 8
.Lswitch_end\@:
    .popsection
.endm

/* A record is written inside `record NAME, BODY, PAD, …` and `end_record`:
 * first all variants, then all guards. */
.macro record name:req, body:req, pad:req, variants:req, guards:req
    .pushsection multiverse_functions,"a",@progbits
    .balign 8
.Lrecord_\name:
    .long .Lrecord_end_\name - .Lrecord_\name
    .short 0
    .short .Lrecord_name_\name - .Lrecord_\name
    .short \variants, \guards
    .long \body - .
    .long \pad - .
    .long 0
.endm

.macro pointer_record name:req, body:req, pad:req, pointer:req
    .pushsection multiverse_functions,"a",@progbits
    .balign 8
.Lrecord_\name:
    .long .Lrecord_end_\name - .Lrecord_\name
    .short 1
    .short .Lrecord_name_\name - .Lrecord_\name
    .short 0, 0
    .long \body - .
    .long \pad - .
    .long \pointer@GOTPCREL
.endm

/* variant BODY, END, first guard, number of guards */
.macro variant body:req, end:req, first:req, count:req
    .long \body - .
    .long \end - \body
    .short \first, \count
    .short 0, 0
.endm

.macro guard symbol:req, width:req, flags:req, low:req, high:req
    .long \symbol@GOTPCREL
    .byte \width, \flags
    .short 0
    .quad \low, \high
.endm

.macro end_record name:req
.Lrecord_name_\name:
    .asciz "\name"
    .balign 8
.Lrecord_end_\name:
    .popsection
.endm

/* site LABEL, CALLEE: one recorded call */
.macro site label:req, callee:req
    .pushsection multiverse_callsites,"ao",@progbits,.text
    .balign 4
    .long \label - .
    .long \callee@GOTPCREL
    .popsection
.endm

/* The object's note; the sections must exist, so empty ones are made. */
.macro note version=1
    .pushsection multiverse_functions,"a",@progbits
    .popsection
    .pushsection multiverse_switches,"a",@progbits
    .popsection
    .pushsection multiverse_callsites,"ao",@progbits,.text
    .popsection
    .hidden __start_multiverse_functions, __stop_multiverse_functions
    .hidden __start_multiverse_callsites, __stop_multiverse_callsites
    .hidden __start_multiverse_switches, __stop_multiverse_switches
    .pushsection .note.multiverse,"a",@note
    .balign 4
    .long 11, 28, 1
    .asciz "Multiverse"
    .balign 4
    .long \version
    .long __start_multiverse_functions - ., __stop_multiverse_functions - .
    .long __start_multiverse_callsites - ., __stop_multiverse_callsites - .
    .long __start_multiverse_switches - ., __stop_multiverse_switches - .
    .popsection
.endm

/* Instructions. */
.macro pad_nop
    .balign 8
    .byte 0x0f, 0x1f, 0x44, 0x00, 0x00
.endm

.macro function name:req
    .globl \name
    .type \name, @function
\name:
.endm

.section .note.GNU-stack,"",@progbits
.text
