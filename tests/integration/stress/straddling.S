/* SPDX-License-Identifier: MIT
 *
 * Calls of value() that lie where a compiler would not put them: across 8-byte
 * words, cache lines and pages, with every split of the instruction.
 */
    .macro caller name, offset         /* the site at `offset` of the section */
    .org .Lstart + \offset - 4, 0x90
call_\name:
    sub $8, %rsp                       /* 48 83 ec 08 */
.Lsite_\name:
    call value@PLT                     /* e8 rel32 */
    add $8, %rsp
    ret
    .pushsection .data.rel.ro, "aw"
    .quad call_\name, .Lsite_\name
    .popsection
    .pushsection multiverse_callsites, "ao", @progbits, .text.straddling
    .balign 4
    .long .Lsite_\name - .
    .long value@GOTPCREL
    .popsection
    .endm

    .section .data.rel.ro, "aw"
    .balign 8
    .globl straddling_table
    .hidden straddling_table
straddling_table:

    .section .text.straddling, "ax", @progbits
    .balign 4096
.Lstart:
    caller word,   0x20                /* inside one word: for comparison */
    caller words,  0x44
    caller line_1, 0x7f                /* one byte in the first line */
    caller line_2, 0xbe
    caller line_3, 0xfd
    caller line_4, 0x13c
    caller page_1, 0xfff
    caller page_2, 0x1ffe
    caller page_3, 0x2ffd
    caller page_4, 0x3ffc
    .org .Lstart + 0x5000, 0x90

    .section .data.rel.ro, "aw"
    .quad 0, 0
    .section .note.GNU-stack, "", @progbits
