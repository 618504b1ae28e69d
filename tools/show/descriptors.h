/* SPDX-License-Identifier: MIT
 *
 * descriptors.h: the multiverse descriptors of one ELF file, checked and decoded
 * (format: include/mvld/descriptor.h).
 */
#ifndef DESCRIPTORS_H
#define DESCRIPTORS_H

#include "tools/common/elf_file.h"

struct mv_switch {
    const char *name;
    uint64_t record; /* address of the record */
    struct elf_target target;
    unsigned width, flags;
};

struct mv_guard {
    struct elf_target target;
    unsigned width, flags;
    uint64_t low, high;
};

struct mv_variant {
    const char *name; /* or NULL */
    uint64_t body;
    uint32_t size; /* 0: unknown */
    size_t first_guard, n_guards;
};

struct mv_function {
    const char *name;
    uint64_t record, body, pad;
    int is_pointer, is_inline; /* an inline call: of `pointer`; its variants are arms */
    struct elf_target pointer;
    struct mv_variant *variants;
    size_t n_variants;
    struct mv_guard *guards;
    size_t n_guards;
};

/* The instruction at a call site, in the order of descriptor.h. */
enum mv_instruction {
    MV_CALL, MV_JMP, MV_JMP_SHORT, MV_CALL_GOT, MV_JMP_GOT, MV_CALL_RELAXED, MV_JMP_RELAXED,
    MV_READ, MV_UNKNOWN
};

struct mv_site {
    uint64_t record, address;
    struct elf_target callee;
    enum mv_instruction instruction;
    unsigned length; /* length of the instruction that a commit replaces */
    int one_word;    /* inside one aligned 8-byte word */
};

struct descriptors {
    int found; /* the file has a note */
    unsigned version;
    uint64_t note;
    struct mv_switch *switches;
    size_t n_switches;
    uint64_t records, records_end; /* of switches */
    struct mv_function *functions;
    size_t n_functions, n_inline; /* n_inline: number of inline calls among them */
    struct mv_site *sites;
    size_t n_sites;
};

/* 0, or -1 with the file's `error` set.  A file without descriptors is no error. */
int descriptors_read(struct elf_file *, struct descriptors *);
void descriptors_free(struct descriptors *);

/* Whether two slots have the same target, as far as this file tells. */
int same_target(const struct elf_target *, const struct elf_target *);
/* The name of a guard's switch, or NULL. */
const char *switch_name(const struct descriptors *, const struct elf_target *);
/* The first of these bytes.  MV_UNKNOWN: none that a commit replaces, and *length is 0.  instruction.c */
enum mv_instruction instruction_decode(const uint8_t *bytes, size_t n, unsigned *length);
const char *instruction_name(enum mv_instruction);

#endif
