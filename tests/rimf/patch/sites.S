/* SPDX-License-Identifier: MIT
 *
 * tests/rimf/patch/sites.S: callers whose 5-byte site lies where it hurts.
 * Each is `call`-able, returns its site's value in eax, and is listed in
 * patch_sites_table as { caller, site }.  Nothing else is in these pages.
 */
        .macro  caller name, offset     /* the site at `offset` of this page */
        .org    .Lpage + \offset - 5, 0x90 /* nop: objdump reads from the start */
        .globl  \name
        .type   \name, @function
\name:  mov     $-1, %eax               /* b8 ff ff ff ff   a lost site shows */
\name\()_site:
        call    patch_one               /* e8 rel32 */
        ret
        .size   \name, . - \name
        .pushsection .data.rel.ro.local, "aw"
        .quad   \name, \name\()_site
        .popsection
        .endm

        .pushsection .data.rel.ro.local, "aw"
        .balign 8
        .globl  patch_sites_table, patch_sites_table_end
patch_sites_table:
        .popsection

        .section .text.patch_sites, "ax", @progbits
        .balign 4096
        .globl  patch_sites_start, patch_sites_end
patch_sites_start:
.Lpage:
        caller  site_in_word,        0x40   /* one aligned 8-byte word */
        caller  site_across_words_1, 0x83   /* 0x83..0x87, 0x88: no */
        caller  site_across_words,   0xa5   /* across two words of one line */
        caller  site_across_lines,   0xfe   /* across two cache lines */
        caller  site_across_lines_1, 0x17f  /* only the opcode in the first */
        caller  site_across_lines_4, 0x1bc  /* only the last byte in the second */
        caller  site_across_pages_1, 0xfff
        caller  site_across_pages_2, 0x1ffe
        caller  site_across_pages_3, 0x2ffd
        caller  site_across_pages_4, 0x3ffc
        caller  site_near,           0x7003 /* pages between are moved along */
        .org    .Lpage + 0x2a000 - 64       /* zeros, which objdump leaves out */
        caller  site_far,           0x2a003 /* pages between are left out */
        .balign 4096
patch_sites_end:
        .pushsection .data.rel.ro.local, "aw"
patch_sites_table_end:
        .popsection

        .text
        .macro  variant name, value
        .globl  \name
        .type   \name, @function
\name:  mov     $\value, %eax
        ret
        .size   \name, . - \name
        .endm
        variant patch_one, 1
        variant patch_two, 2

        .section .note.GNU-stack, "", @progbits
