/* SPDX-License-Identifier: MIT
 *
 * rimf/elf/view.h: reading a mapped ELF object without trusting it.
 *
 * A view is made once from the feeder's facts (struct rimf_source) and never changes.  It has the
 * object's segments and the addresses of its tables.  Everything else (a note, a symbol, a version,
 * a relocation) is later read from the object's memory through elf_holds(): inside one segment that
 * is readable as linked.  Loops are bounded by the size of their table, so wrong tables give a
 * wrong result or none, never a fault or an endless loop.
 *
 * Addresses in the dynamic section: glibc adds the load bias to them in place if the section is
 * writable; musl does not, and in the vDSO nobody does.  So a value that is an address in a segment
 * is used as it is; otherwise the bias is added.
 *
 * The memory must match the program headers: a file that was truncated after mapping faults here as
 * it does in the program.
 */
#ifndef RIMF_ELF_VIEW_H
#define RIMF_ELF_VIEW_H

#include "mvld/pass.h"
#include "rimf/base/sys.h"
#include "rimf/elf/source.h"

#include <elf.h>

struct elf_view {
    uintptr_t bias;
    const Elf64_Phdr *phdr;
    size_t phnum;
    const Elf64_Dyn *dynamic;
    size_t n_dynamic; /* without DT_NULL */
    struct mvld_segment *segments;
    size_t n_segments;

    /* From the dynamic section; NULL or 0 if absent or out of bounds. */
    const char *strings;
    size_t strings_size; /* up to the last terminated string */
    const Elf64_Sym *symbols;
    size_t symbols_limit; /* as many as fit into the segment */
    const uint32_t *gnu_hash;
    const uint32_t *hash;
    const uint16_t *versym;
    uintptr_t verdef, verneed;
    size_t n_verdef, n_verneed;
    const Elf64_Rela *plt_relocations, *relocations;
    size_t n_plt_relocations, n_relocations, n_relative; /* RELATIVE ones come first */
    const uint64_t *relr; /* DT_RELR: addresses and bitmaps of RELATIVE words */
    size_t n_relr;
    int symbolic; /* DT_SYMBOLIC, DF_SYMBOLIC: its own definitions take precedence */
    int filter;   /* DT_FILTER, DT_AUXILIARY: its look-ups are redirected */
    int audit;    /* DT_AUDIT, DT_DEPAUDIT */
    int text_relocations;
    int now;      /* DT_BIND_NOW, DF_BIND_NOW, DF_1_NOW: no lazy slots */
};

/* ---- elf_view.c ---------------------------------------------------------- */

/* Finds the program headers; returns the number of PT_LOADs, at least 1.  Negative errno and a
 * static sentence in *why if they cannot be read. */
long elf_view_probe(struct elf_view *, const struct rimf_sys *, const struct rimf_source *,
                    const char **why);
/* Fills in the rest, after elf_view_probe.  `segments` has `room` elements and outlives the view.
 * 0, or -ENOEXEC with a sentence in *why. */
int elf_view_open(struct elf_view *, const struct rimf_source *, struct mvld_segment *segments,
                  size_t room, const char **why);

/* The segment that the address is in, or NULL. */
const struct mvld_segment *elf_segment_at(const struct elf_view *, uintptr_t address);
/* Returns 1 if [address, address + length) is inside one segment that has at least `prot`. */
int elf_holds(const struct elf_view *, uintptr_t address, size_t length, uint32_t prot);
/* The number of bytes from `address` to the end of its segment, if that is readable. */
size_t elf_room(const struct elf_view *, uintptr_t address);

/* The string at `offset` of the dynamic string table, or NULL. */
const char *elf_string(const struct elf_view *, size_t offset);
/* Returns 1 if that string is `name`. */
int elf_string_is(const struct elf_view *, size_t offset, const char *name);

/* The program header of `type` number `index`, or NULL. */
const Elf64_Phdr *elf_phdr(const struct elf_view *, uint32_t type, size_t index);

/* Visits each word that DT_RELR relocates; a value other than 0 ends the walk and is returned. */
int elf_relr_each(const struct elf_view *, int (*visit)(void *cookie, uintptr_t word), void *cookie);

/* Asks the kernel whether these bytes are readable. */
int elf_readable(const struct rimf_sys *, uintptr_t at, size_t size);

/* ---- elf_notes.c --------------------------------------------------------- */

/* As note_each of mvld/pass.h. */
int elf_note_each(const struct elf_view *, const char *name, uint32_t type,
                  int (*visit)(void *cookie, const void *desc, size_t size), void *cookie);
/* NULL if there is none. */
const uint8_t *elf_build_id(const struct elf_view *, size_t *size);

/* ---- elf/symbols.c ------------------------------------------------------ */

#define ELF_VERSION_HIDDEN 0x8000u
#define ELF_VERSION_INDEX 0x7fffu

/* The entry of DT_VERSYM for symbol `index`: 0, or -ENOENT without versions. */
int elf_versym(const struct elf_view *, size_t index, uint16_t *out);
/* The name of version `number` among those that the object defines, or NULL.  The base version,
 * which is the object's own name, does not count. */
const char *elf_version_defined(const struct elf_view *, unsigned number);
/* The same, or among those that it needs.  An executable's copy of a library's variable is a
 * definition there, and has the version that the executable needs. */
const char *elf_version_name(const struct elf_view *, unsigned number);

/* ---- elf/symbols.c ------------------------------------------------------- */

/* The kinds of look-ups that the host loader distinguishes. */
enum elf_wanted {
    ELF_ANY_DEFAULT,   /* dlsym: the default version */
    ELF_ANY_BASE,      /* a reference without version: the oldest definition */
    ELF_EXACT,         /* dlvsym: this version */
    ELF_EXACT_OR_NONE, /* a reference with version: this one, or a symbol without version */
};

/* The name to look up in one object after the other. */
struct elf_name {
    const char *name, *version;
    enum elf_wanted wanted;
    uint32_t gnu_hash;
};
struct elf_name elf_name(const char *name, const char *version, enum elf_wanted);
/* The index of its definition, or 0. */
size_t elf_symbol_find(const struct elf_view *, const struct elf_name *);
/* The number of symbols, including undefined ones; bounded, whatever the tables say. */
size_t elf_symbol_count(const struct elf_view *);
/* The present address; 0 for STT_TLS, which has no single address. */
uintptr_t elf_symbol_address(const struct elf_view *, const Elf64_Sym *);
/* Copies symbol `index`: 0, or -ENOENT if it is out of bounds. */
int elf_symbol_at(const struct elf_view *, size_t index, Elf64_Sym *out);

/* ---- relocations (elf/symbols.c) ------------------------------------------- */

/* The relocation that fills the GOT slot at `slot` with a function's address: a
 * JUMP_SLOT, a GLOB_DAT, or an IRELATIVE of the PLT.  0, or -ENOENT. */
int elf_slot_relocation(const struct elf_view *, uintptr_t slot, Elf64_Rela *out);

/* Visits each word of data that is relocated to an address, except slots; a value other than 0 ends
 * the walk and is returned. */
int elf_pointer_each(const struct elf_view *, int (*visit)(void *cookie, uintptr_t word), void *cookie);

/* The whole pages that the host loader makes read-only after relocation (PT_GNU_RELRO); returns
 * their length; 0: there are none. */
size_t elf_relro(const struct elf_view *, uintptr_t *start);

#endif
