/* SPDX-License-Identifier: MIT
 *
 * rimf/analyze/object.h: an ELF file as the host loader will map it.
 *
 * Everything is found through program headers and the dynamic section.  Section headers only add the names
 * and starts of local functions in .symtab, and are ignored if absent or damaged.  Nothing in the file is
 * trusted: every access goes through object_at, which checks bounds.  Addresses are as linked and, as an
 * analysis requires, below 4 GiB.
 */
#ifndef ANALYZE_OBJECT_H
#define ANALYZE_OBJECT_H

#include "rimf/analyze/vector.h"

#include "rimf/base/base.h"
#include "rimf/analysis/analysis.h"

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

struct segment { /* a PT_LOAD */
    uint32_t start, end; /* in memory */
    uint32_t file_end;   /* end of the bytes that come from the file */
    uint32_t flags;      /* PF_* */
    const uint8_t *bytes;
};

/* An address in the object that the loader or another object may jump to or point to. */
struct pointer {
    uint32_t target;
    uint32_t from; /* where the pointer is: a relocation's address, or the target itself */
};

/* A function of one of the symbol tables. */
struct function {
    const char *name;
    uint32_t start, size;
};

struct object {
    const char *path; /* of the analysed file, or NULL: the analysis does not tell */
    const uint8_t *file;
    size_t size;
    struct file_id identity; /* all 0: its identity does not distinguish it from other files */
    int mapped;
    uint8_t build_id[ANALYSIS_BUILD_ID_MAX];
    uint32_t build_id_size;
    uint32_t flags;       /* enum analysis_flags */
    int asks;             /* it calls or defines what tells the object of an address: dladdr, dl_iterate_phdr */
    int locates;          /* it calls dl_iterate_phdr, to find the object of an address */
    uint32_t low, high;   /* of all segments */
    struct segment *segments; /* sorted */
    size_t n_segments;
    Elf64_Ehdr header;
    const Elf64_Dyn *dynamic;
    size_t n_dynamic;
    union {
        struct vector all[8];
        struct {
            struct vector pointers;  /* struct pointer: relocated words, symbols, entry points */
            struct vector slots;     /* uint32_t, sorted: GOT slots that hold a function's address */
            struct vector relocated; /* uint32_t, sorted: relocated addresses in executable segments */
            struct vector data;      /* struct pointer: symbols of data inside executable segments */
            struct vector labels;    /* uint32_t: local symbols in code that are no functions */
            struct vector words;     /* struct pointer, sorted by `from`: relocated words; target 0: unknown */
            struct vector named;     /* uint32_t: exported symbols and entry points */
            struct vector functions; /* struct function */
        };
    };
    char error[256];
};

/* Headers, segments, build-id.  0, or -1 with `error` set.  object_close is harmless
 * after a failed open. */
int object_open(struct object *, const char *path);
/* The same for bytes in memory, which the caller owns; the identity stays empty. */
int object_parse(struct object *, const uint8_t *bytes, size_t size);
void object_close(struct object *);
/* Sets `error`; always -1. */
int object_fail(struct object *, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* object_relocations.c: fills pointers, slots, relocated, data, labels, words, named, functions.
 * 0, or -1. */
int object_read_references(struct object *);
/* The relocated word at that address, or NULL. */
const struct pointer *object_word_at(const struct object *, uint32_t place);

/* object.c: sets the flags of objects whose code is identified by its address. */
void object_take_name(struct object *, const char *name, int imported);
void object_find_restarts(struct object *);
void object_find_maps(struct object *);
/* The section headers, or NULL with 0 in *n; their names, or NULL with 0 in *size. */
const Elf64_Shdr *object_sections(const struct object *, size_t *n);
const char *object_section_names(const struct object *, size_t *size);

/* The segment that contains `address` in memory, or NULL. */
const struct segment *object_segment(const struct object *, uint64_t address);
/* `size` bytes of the file at an address, or NULL. */
const uint8_t *object_at(const struct object *, uint64_t address, uint64_t size);
/* The number of bytes of the file from `address` to the end of its segment. */
size_t object_room(const struct object *, uint64_t address);
/* The value of a dynamic tag, or 0. */
uint64_t object_tag(const struct object *, int64_t tag);
const Elf64_Phdr *object_phdr(const struct object *, uint32_t type, size_t index);
const Elf64_Phdr *object_phdr_last(const struct object *, uint32_t type); /* as elf_phdr_last */
int object_is_slot(const struct object *, uint64_t address);

/* Sorts and removes duplicates. */
void sort_addresses(struct vector *);
int has_address(const struct vector *, uint64_t address);

#endif
