/* SPDX-License-Identifier: MIT
 *
 * loader/process/block.h: the kernel's block on the stack, and our changes of it (block.c).
 */
#ifndef LOADER_BLOCK_H
#define LOADER_BLOCK_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

/* The words at the stack pointer when a program starts. */
struct block {
    uintptr_t *sp; /* argc, argv[], NULL, envp[], NULL, auxv[] */
    size_t argc, envc;
    char **argv, **envp;
    Elf64_auxv_t *auxv;
    /* Entries of auxv, or NULL. */
    Elf64_auxv_t *phdr, *phnum, *entry, *base, *execfn, *vdso, *random;
    uint32_t user; /* the effective user at the program's start; an invalid one if unknown */
    int secure;
};

void block_read(struct block *, uintptr_t *sp);

/* The executable that the kernel mapped, by auxv. */
struct executable {
    const Elf64_Phdr *ph; /* NULL: unknown */
    size_t n;
    const Elf64_Phdr *own; /* PT_PHDR, or NULL: then the bias is unknown, and 0 */
    uintptr_t bias;
};

struct executable block_executable(const struct block *);

/* An LD_PRELOAD of ours, see block.c. */
struct injection {
    char *ours;  /* the whole "LD_PRELOAD=…"; NULL: not inserted */
    char *users; /* the user's own, which ours replaced, or NULL */
    const char *first; /* a library of the program that must precede ours, or NULL */
};

/* If the user has no LD_PRELOAD, the block moves down by so many words: the stack pointer must
 * first be lowered by them. */
#define BLOCK_MOVES 2

void block_inject(struct block *, struct injection *, char *preload);
/* Returns 1 if it was found and removed, 0 if it is not there any more. */
int block_restore(const struct block *, struct injection *);
/* Removes the variables NAME and NAME_* from the environment. */
void block_scrub(struct block *, const char *name);

#endif
