/* SPDX-License-Identifier: MIT
 *
 * concat.S: libconcat.so.1, the region to which concat moves code.
 *
 * The region is a shared object that the host loader maps like any other.  So a query for the
 * object of an address (by unwinders with dl_iterate_phdr and _dl_find_object, by debuggers with
 * the link map) finds moved code and its unwind table without our help.
 *
 *   from linked address     as mapped   what
 *   0                       r-x, file   headers, dynamic symbols, stubs
 *   dynamic                 r--, file   the dynamic section (RELRO)
 *   descriptor              rw-, file   what debuggers read (GDB's JIT interface)
 *   frames                  r--, none   mvld_moved_frames, where PT_GNU_EH_FRAME points
 *   code                    ---, none   mvld_moved_code
 *
 * The last two have no bytes in the file and are never writable as linked: they cost addresses, but
 * neither memory nor commit charge.  Frames are readable, because otherwise an unwinder that looks
 * up a stray address in mvld_moved_code would fault: it reads zeros as a table of unknown version, and
 * ignores it.
 *
 * No linker writes such a file: a linker puts segments around sections.  The region must not be in
 * a section: gdb finds the object of an address by its section, and would look for the names of
 * moved code here (they are in other files, see rimf/moved/symfile.h).  So the bytes of the whole
 * file, including headers, are written here, and the linker copies them (--oformat binary).
 *
 * No name of this object may satisfy a look-up of another, because it precedes most in the global
 * scope.  So all dynamic names begin with mvld_moved_.  Programs that compile at run time (LLVM) have a
 * __jit_debug_descriptor of their own: those names are in .symtab only, which only debuggers read.
 */
#include "room.h"

#define PAGE 0x1000

#define PT_LOAD 1
#define PT_DYNAMIC 2
#define PT_GNU_EH_FRAME 0x6474e550
#define PT_GNU_STACK 0x6474e551
#define PT_GNU_RELRO 0x6474e552
#define R 4
#define W 2
#define X 1

#define TEXT_SECTION 4 /* numbers in the section header table */
#define DATA_SECTION 6
#define LOCAL 0
#define GLOBAL 1
#define NOTYPE 0
#define OBJECT 1
#define FUNC 2

    .macro program_header type, flags, at, filesz, memsz, align=PAGE
    .long \type, \flags
    .quad \at, \at, \at /* offset and address are equal */
    .quad \filesz, \memsz, \align
    .endm

    .macro section_header name, type, flags, address, at, size, link=0, info=0, align=8, entsize=0
    .long \name, \type
    .quad \flags, \address, \at, \size
    .long \link, \info
    .quad \align, \entsize
    .endm

    .macro symbol name, binding, type, section, value, size
    .long \name
    .byte (\binding << 4) | \type, 0
    .short \section
    .quad \value, \size
    .endm

    .section .text, "ax", @progbits
file:
    .byte 0x7f
    .ascii "ELF"
    .byte 2, 1, 1, 0 /* ELFCLASS64, ELFDATA2LSB, EV_CURRENT, ELFOSABI_NONE */
    .quad 0
    .short 3, 62 /* ET_DYN, EM_X86_64 */
    .long 1
    .quad 0, program_headers - file, section_headers - file
    .long 0
    .short 64, 56, (program_headers_end - program_headers) / 56
    .short 64, (section_headers_end - section_headers) / 64, 9

program_headers:
    program_header PT_LOAD, R|X, 0, dynamic-file, dynamic-file
    program_header PT_LOAD, R|W, dynamic-file, 2*PAGE, 2*PAGE
    program_header PT_LOAD, 0, frames-file, 0, CONCAT_FRAMES_SIZE+CONCAT_CODE_SIZE
    program_header PT_DYNAMIC, R|W, dynamic-file, dynamic_size, dynamic_size, 8
    program_header PT_GNU_RELRO, R, dynamic-file, PAGE, PAGE, 1
    program_header PT_GNU_EH_FRAME, R, frames-file, 0, CONCAT_FRAMES_SIZE, 4
    program_header PT_GNU_STACK, R|W, 0, 0, 0, 16
program_headers_end:

    .balign 8, 0
dynsym:
    .zero 24
    symbol name_code, GLOBAL, NOTYPE, TEXT_SECTION, frames-file+CONCAT_FRAMES_SIZE, CONCAT_CODE_SIZE
    symbol name_frames, GLOBAL, NOTYPE, TEXT_SECTION, frames-file, CONCAT_FRAMES_SIZE
    symbol name_jit, GLOBAL, OBJECT, DATA_SECTION, descriptor-file, descriptor_size
    symbol name_changed, GLOBAL, FUNC, TEXT_SECTION, changed-file, changed_size
dynsym_end:

/* One bucket, one word of bloom filter, shift 6; hashes in the order of the symbols. */
#define HASH_CODE 0xf673454c
#define HASH_FRAMES 0x678e160f
#define HASH_JIT 0x931ae118
#define HASH_CHANGED 0xc2fbd6c1
#define BLOOM(hash) (1 << ((hash) & 63) | 1 << ((hash) >> 6 & 63))
    .balign 8, 0
hash:
    .long 1, 1, 1, 6
    .quad BLOOM(HASH_CODE) | BLOOM(HASH_FRAMES) | BLOOM(HASH_JIT) | BLOOM(HASH_CHANGED)
    .long 1
    .long HASH_CODE & ~1, HASH_FRAMES & ~1, HASH_JIT & ~1, HASH_CHANGED | 1
hash_end:

dynstr:
    .byte 0
    .set name_code, . - dynstr
    .asciz "mvld_moved_code"
    .set name_frames, . - dynstr
    .asciz "mvld_moved_frames"
    .set name_jit, . - dynstr
    .asciz "mvld_moved_jit"
    .set name_changed, . - dynstr
    .asciz "mvld_moved_jit_changed"
    .set name_soname, . - dynstr
    .asciz "libconcat.so.1"
dynstr_end:

/* Debuggers put a breakpoint here and look at the descriptor when it is hit. */
    .balign 16, 0xcc
text:
changed:
    endbr64             /* f3 0f 1e fa */
    ret                 /* c3 */
    .set changed_size, . - changed
text_end:
    .balign PAGE, 0xcc

dynamic:
    .quad 14, name_soname           /* DT_SONAME */
    .quad 0x6ffffef5, hash - file   /* DT_GNU_HASH */
    .quad 5, dynstr - file          /* DT_STRTAB */
    .quad 6, dynsym - file          /* DT_SYMTAB */
    .quad 10, dynstr_end - dynstr   /* DT_STRSZ */
    .quad 11, 24                    /* DT_SYMENT */
    .quad 30, 8                     /* DT_FLAGS: DF_BIND_NOW */
    .quad 0x6ffffffb, 9             /* DT_FLAGS_1: DF_1_NOW | DF_1_NODELETE */
    .quad 0, 0
    .set dynamic_size, . - dynamic
    .balign PAGE, 0

descriptor: /* struct jit_descriptor: version, action, entry at hand, first entry */
    .long 1, 0
    .quad 0, 0
    .set descriptor_size, . - descriptor
    .balign PAGE, 0
frames:

/* Not mapped from here on: for debuggers and binutils. */
symtab:
    .zero 24
    symbol str_descriptor, GLOBAL, OBJECT, DATA_SECTION, descriptor-file, descriptor_size
    symbol str_register, GLOBAL, FUNC, TEXT_SECTION, changed-file, changed_size
    symbol str_code, GLOBAL, NOTYPE, TEXT_SECTION, frames-file+CONCAT_FRAMES_SIZE, CONCAT_CODE_SIZE
    symbol str_frames, GLOBAL, NOTYPE, TEXT_SECTION, frames-file, CONCAT_FRAMES_SIZE
symtab_end:

strtab:
    .byte 0
    .set str_descriptor, . - strtab
    .asciz "__jit_debug_descriptor"
    .set str_register, . - strtab
    .asciz "__jit_debug_register_code"
    .set str_code, . - strtab
    .asciz "mvld_moved_code"
    .set str_frames, . - strtab
    .asciz "mvld_moved_frames"
strtab_end:

shstrtab:
    .byte 0
    .set n_dynsym, . - shstrtab
    .asciz ".dynsym"
    .set n_dynstr, . - shstrtab
    .asciz ".dynstr"
    .set n_hash, . - shstrtab
    .asciz ".gnu.hash"
    .set n_text, . - shstrtab
    .asciz ".text"
    .set n_dynamic, . - shstrtab
    .asciz ".dynamic"
    .set n_data, . - shstrtab
    .asciz ".data"
    .set n_symtab, . - shstrtab
    .asciz ".symtab"
    .set n_strtab, . - shstrtab
    .asciz ".strtab"
    .set n_shstrtab, . - shstrtab
    .asciz ".shstrtab"
shstrtab_end:

    .balign 8, 0
section_headers: /* flags: 2 alloc, 1 write, 4 code; address, place in the file, size */
    .zero 64
    section_header n_dynsym, 11, 2, dynsym-file, dynsym-file, dynsym_end-dynsym, 2, 1, 8, 24
    section_header n_dynstr, 3, 2, dynstr-file, dynstr-file, dynstr_end-dynstr, align=1
    section_header n_hash, 0x6ffffff6, 2, hash-file, hash-file, hash_end-hash, 1
    section_header n_text, 1, 6, text-file, text-file, text_end-text, align=16
    section_header n_dynamic, 6, 3, dynamic-file, dynamic-file, dynamic_size, 2, 0, 8, 16
    section_header n_data, 1, 3, descriptor-file, descriptor-file, descriptor_size
    section_header n_symtab, 2, 0, 0, symtab-file, symtab_end-symtab, 8, 1, 8, 24
    section_header n_strtab, 3, 0, 0, strtab-file, strtab_end-strtab, align=1
    section_header n_shstrtab, 3, 0, 0, shstrtab-file, shstrtab_end-shstrtab, align=1
section_headers_end:

    .section .note.GNU-stack, "", @progbits
