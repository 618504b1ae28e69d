/* SPDX-License-Identifier: MIT
 *
 * mvld/descriptor.h: what the compiler plugin writes into an ELF object for the multiverse run
 * time, version 1.
 *
 * Overview
 *
 *   The plugin (gcc-plugin/) writes descriptors; the run time
 *   (passes/multiverse/) and `mvld show` (tools/) read them.  They are read-only
 *   and position independent.  An address inside the object is a 32-bit distance
 *   from the field that holds it.  An address that the dynamic linker decides is a
 *   32-bit distance to a GOT slot (`.long symbol@GOTPCREL`), which GLOB_DAT or
 *   RELATIVE fills before any constructor runs.  So descriptors need no dynamic
 *   relocation of their own, and follow symbol interposition, copy relocations,
 *   versions and -Bsymbolic exactly like the program's own references.
 *
 *   There are three sections.  Their names are C identifiers, so that every linker
 *   defines __start_ and __stop_ symbols for them:
 *
 *     multiverse_functions   variation points with their variants and guards
 *     multiverse_callsites   8 bytes for each recorded call
 *     multiverse_switches    configuration switches
 *
 *   A note in .note.multiverse (name "Multiverse", type 1) holds their addresses.
 *   Every translation unit emits the same note; a reader ignores duplicates.
 *   PT_NOTE survives strip(1), and SHT_NOTE survives --gc-sections.
 *
 *   No record refers to another section by index.  A record of functions or
 *   switches is one self-contained run of bytes that begins with its size.  So a
 *   linker may drop, merge or reorder records (COMDAT, --gc-sections) without
 *   leaving a dangling reference.
 *
 *   A symbol that no other object can define (static, hidden, or defined by an
 *   executable) is named by its own distance, `.long symbol - .`, without GOT slot
 *   or relocation: static programs have neither.  The address of a symbol that can
 *   be preempted is known to the dynamic linker only, so it needs the slot.
 *
 * Example (one call site)
 *
 *       .section multiverse_callsites,"ao",@progbits,.text
 *       .long   .Lsite0 - .              # the call instruction
 *       .long   decode@GOTPCREL          # the function that it calls
 *
 * Readers check every size, count, offset and distance against the object's own segments before
 * use.
 */
#ifndef MVLD_DESCRIPTOR_H
#define MVLD_DESCRIPTOR_H

#include <stdint.h>

#define MULTIVERSE_NOTE_NAME "Multiverse" /* n_namesz is 11, with the NUL */
#define MULTIVERSE_NOTE_TABLES 1u         /* n_type: struct multiverse_note */
#define MULTIVERSE_NOTE_LIBRARY 2u        /* the object contains libmultiverse */
#define MULTIVERSE_VERSION 1u

/* Descriptor of the note.  A range is empty if both ends are the same address.  Offsets are
 * relative to the field that holds them. */
struct multiverse_note {
    uint32_t version; /* MULTIVERSE_VERSION; a reader refuses any other */
    int32_t functions, functions_end;
    int32_t callsites, callsites_end;
    int32_t switches, switches_end;
};

/* A configuration switch: an integer, bool or enum that is a global variable or a member of one; a
 * constant may also be a pointer.  Each unit that defines the switch, or specialises a function for
 * it, emits a record.  Records of the same address describe the same switch and must agree.  8-byte
 * aligned. */
struct multiverse_switch {
    uint32_t size;  /* of this record, name and padding included; multiple of 8 */
    uint8_t width;  /* 1, 2, 4 or 8 bytes */
    uint8_t flags;  /* MULTIVERSE_SWITCH_* */
    uint16_t name;  /* offset from the start of the record to a NUL-terminated name */
    int32_t slot;   /* to the 8-byte GOT slot that holds the switch's address; see _DIRECT */
    uint32_t offset; /* of a member, from the address in the slot; else 0 */
};
#define MULTIVERSE_SWITCH_SIGNED 1u  /* values are sign-extended before comparison */
#define MULTIVERSE_SWITCH_TRACKED 2u /* starts unbound, see multiverse_bind() */
#define MULTIVERSE_SWITCH_DEFINED 4u /* this unit defines it */
#define MULTIVERSE_SWITCH_BOOL 8u    /* only 0 and 1 are valid */
#define MULTIVERSE_SWITCH_CONSTANT 16u /* a commit writes its value into the code that reads it */
#define MULTIVERSE_SWITCH_DIRECT 32u /* `slot` is the distance to the switch itself */
#define MULTIVERSE_SWITCH_UNRECORDED 64u /* a constant: some reads of the unit are no sites and
                                          * always load the variable */

/* A variation point.  8-byte aligned.  Followed, inside `size`, by
 * n_variants struct multiverse_variant, n_guards struct multiverse_guard and
 * the names. */
struct multiverse_function {
    uint32_t size;       /* of the whole record; multiple of 8 */
    uint16_t flags;      /* MULTIVERSE_FUNCTION_* */
    uint16_t name;       /* offset from the start of the record */
    uint16_t n_variants;
    uint16_t n_guards;
    int32_t body;        /* to the generic function, which callers call */
    int32_t pad;         /* to the 5-byte NOP (0f 1f 44 00 00) at its entry, inside
                            one aligned 8-byte word, that may become a jump */
    int32_t pointer;     /* _POINTER, _INLINE: to the GOT slot with the address of the pointer
                          * variable or function; see _DIRECT; else 0 */
};
/* The variation point is a function pointer.  `body` is a hidden stub, `jmp *pointer`, and all
 * recorded calls go through it.  There are no variants: a commit binds the call sites and the stub
 * to the pointer's target. */
#define MULTIVERSE_FUNCTION_POINTER 1u
#define MULTIVERSE_FUNCTION_DIRECT 2u /* `pointer` is the distance to the variable or function
                                       * itself */
/* An inline call of a variation point (`pointer`).  `pad` is a 5-byte jump to `body`, which calls
 * the function.  The variants are places in the calling function; one of them may follow the jump.
 * A commit writes a jump to one of them, or the NOP. */
#define MULTIVERSE_FUNCTION_INLINE 4u
/* _INLINE, and `pad` is a conditional jump of 6 bytes, 0f 84 rel32 or 0f 85 rel32, behind a
 * comparison of the switch.  Until a commit it chooses between `body`, which is an arm, too, and
 * the code that follows. */
#define MULTIVERSE_FUNCTION_BRANCH 8u

/* Variants are in order of emission.  The most specific match wins; among equals, the first.
 * Several variants may share one body. */
struct multiverse_variant {
    int32_t body;         /* to the variant's first instruction */
    uint32_t body_size;   /* bytes; 0: unknown, and never copied into a site */
    uint16_t first_guard; /* index into the record's guards */
    uint16_t n_guards;    /* all must hold */
    uint16_t name;        /* offset from the start of the function's record; 0: none */
    uint16_t reserved;    /* 0 */
};

/* low <= value <= high, compared as int64_t if the switch is signed, else as uint64_t. */
struct multiverse_guard {
    int32_t slot; /* to the GOT slot that holds the switch's address; see _DIRECT */
    uint8_t width;
    uint8_t flags; /* MULTIVERSE_SWITCH_SIGNED, _TRACKED, _DIRECT */
    uint16_t offset; /* as in multiverse_switch */
    uint64_t low, high;
};

/* One recorded call, or read of a constant.  4-byte aligned.  A call's instruction is inside one
 * aligned 8-byte word if the assembler could arrange this.  It is one of
 *
 *     e8 rel32                 call f           (or f@PLT)
 *     e9 rel32                 jmp f            tail call
 *     eb rel8 cc cc cc         jmp f            short tail call, padded to 5
 *     ff 15 rel32              call *f@GOTPCREL(%rip)     -fno-plt
 *     ff 25 rel32              jmp *f@GOTPCREL(%rip)
 *     67 e8 rel32              call f           relaxed by the linker
 *     40 e8 rel32              call f           relaxed by newer mold (2.37)
 *     e9 rel32 90              jmp f; nop       relaxed by the linker
 *
 * A read is one of these loads from the constant's address into a 32- or 64-bit register r.  `m` is
 * `rel32(%rip)`, or `(register)` with or without a displacement.  The load has prefixes 3e, so that
 * it is at least as long as a `mov` of an immediate of 4 or 8 bytes to r.  It has up to 11 bytes.
 *
 *     3e… 0f b6 m   3e… 0f be m     movzbl, movsbl     width 1
 *     3e… 0f b7 m   3e… 0f bf m     movzwl, movswl     width 2
 *     3e… 8b m                      movl               width 4
 *     3e… REX.W 8b m                movq               width 8
 */
struct multiverse_callsite {
    int32_t site;   /* to the first byte of the instruction */
    int32_t callee; /* of a call: to the GOT slot that holds the callee's address, or to the callee
                     * itself (which is in executable memory, and a slot is not).  Of a read: to the
                     * constant, to the slot with its address, or, for a member of another object,
                     * to its record in multiverse_switches */
};

#ifndef __cplusplus
_Static_assert(sizeof(struct multiverse_note) == 28, "note");
_Static_assert(sizeof(struct multiverse_switch) == 16, "switch");
_Static_assert(sizeof(struct multiverse_function) == 24, "function");
_Static_assert(sizeof(struct multiverse_variant) == 16, "variant");
_Static_assert(sizeof(struct multiverse_guard) == 24, "guard");
_Static_assert(sizeof(struct multiverse_callsite) == 8, "callsite");
#endif

#endif
