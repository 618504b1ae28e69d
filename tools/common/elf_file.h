/* SPDX-License-Identifier: MIT
 *
 * elf_file.h: reads an ELF file as the dynamic linker does: through its program headers, never
 * through section headers, so that stripped files work.
 *
 * Nothing in the file is trusted: every access copies bytes after checking bounds.  Section headers
 * are used only for the names of functions, and ignored if damaged.
 */
#ifndef ELF_FILE_H
#define ELF_FILE_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct elf_symbol { /* a function that the file names */
    uint64_t address, size;
    const char *name;
    int is_ifunc; /* what is there chooses the function */
    uint16_t version; /* its word of DT_VERSYM; 0: none */
};

struct elf_file {
    const char *path;
    unsigned char *bytes;
    size_t size;
    struct stat read_from; /* of the opened file */
    Elf64_Ehdr header;
    Elf64_Phdr *phdr;
    size_t phnum;
    Elf64_Rela *relocations; /* sorted by r_offset */
    size_t n_relocations;
    uint64_t symtab, strtab, strtab_size, versym, verdef; /* addresses; 0: none */
    struct elf_symbol *functions;         /* sorted by address */
    size_t n_functions;
    char error[512]; /* error of the last call, without the file's name */
};

/* The content of a pointer-sized slot at run time. */
struct elf_target {
    uint64_t address;   /* as linked; an offset from the symbol if that is another object's */
    const char *symbol; /* if a symbol decides, else NULL */
    int defined;        /* `address` is valid */
};

/* 0, or -1 with `error` set.  Calling close() after a failed open is harmless. */
int elf_file_open(struct elf_file *, const char *path);
/* The same for bytes in memory, which the file then owns: close() frees them. */
int elf_file_parse(struct elf_file *, const char *path, unsigned char *bytes, size_t size);
void elf_file_close(struct elf_file *);

/* Sets `error`; always -1. */
int elf_fail(struct elf_file *, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Copies `size` bytes at an address as linked out of the file.  0, or -1 if not all are in the file
 * (`error` is not changed). */
int elf_read(const struct elf_file *, uint64_t address, void *to, size_t size);
/* The file offset of an address, or -1. */
int64_t elf_offset(const struct elf_file *, uint64_t address);
/* Returns 1 if the range is inside one PT_LOAD that has all of `flags` (PF_*). */
int elf_file_holds(const struct elf_file *, uint64_t address, uint64_t size, uint32_t flags);
/* A NUL-terminated string at an address, that ends before `end`; or NULL. */
const char *elf_file_string(const struct elf_file *, uint64_t address, uint64_t end);
/* The content of the slot after relocation.  0, or -1: the slot is not in the file. */
int elf_slot(const struct elf_file *, uint64_t slot, struct elf_target *);
/* The function that contains `address`, or NULL. */
const struct elf_symbol *elf_function_at(const struct elf_file *, uint64_t address);
/* The name of the version that the symbol has, as `V' of NAME@V; or NULL. */
const char *elf_symbol_version(const struct elf_file *, const struct elf_symbol *);
/* Whether only who names this version gets the symbol: another one of its name is the default. */
int elf_symbol_is_hidden(const struct elf_symbol *);
/* Visits each note of this name and type; a visitor's value other than 0 ends the walk.  The
 * descriptor is given by its address as linked.  -1: a note is damaged. */
int elf_notes(struct elf_file *, const char *name, uint32_t type,
              int (*visit)(void *cookie, uint64_t desc, uint32_t size), void *cookie);

#endif
