/* SPDX-License-Identifier: MIT
 *
 * loader/process/block.h: what the kernel left on the stack, and what we change of it (block.c).
 */
#ifndef LOADER_BLOCK_H
#define LOADER_BLOCK_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

/* What lies at the stack pointer when a program starts. */
struct block {
    uintptr_t *sp; /* argc, argv[], NULL, envp[], NULL, auxv[] */
    size_t argc, envc;
    char **argv, **envp;
    Elf64_auxv_t *auxv;
    /* Entries of auxv, NULL when there is none. */
    Elf64_auxv_t *phdr, *phnum, *entry, *base, *execfn, *vdso, *random;
    uint32_t user; /* the effective one, when the program started; where nobody said so, none */
    int secure;
};

void block_read(struct block *, uintptr_t *sp);

/* An LD_PRELOAD of ours, see block.c. */
struct injection {
    char *ours;  /* the whole "LD_PRELOAD=…"; NULL: nothing injected */
    char *users; /* the user's own, whose place ours took, or NULL */
    const char *first; /* a library of the program's that must precede ours, or NULL */
};

/* Moves the block down by this many words when the user has no LD_PRELOAD: the
 * stack pointer must be lower than that before. */
#define BLOCK_MOVES 2

void block_inject(struct block *, struct injection *, char *preload);
/* 1 when it was found and taken out, 0 when it is not there any more. */
int block_restore(const struct block *, struct injection *);
/* Takes every variable of ours out of the environment (AT_SECURE). */
void block_scrub(struct block *, const char *name);

#endif
