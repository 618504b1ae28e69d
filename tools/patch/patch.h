/* SPDX-License-Identifier: MIT
 *
 * patch.h: replaces a function of a running process by one of another library.
 *
 *     f:      [endbr64]                          page of ours, near f             NEW.so
 *             jmp page      ──────────────────►  jmp *target     ──────────────►  f':
 *             …
 *
 * Every call of f runs its first instruction.  The page is also the record of the change: any tool finds it
 * in the process, and a child of fork(2) has its own.
 */
#ifndef PATCH_H
#define PATCH_H

#include "tools/attach/attach.h"
#include "tools/common/elf_file.h"

#include <stddef.h>
#include <stdint.h>

#define PATCH_JUMP 5u /* e9 rel32 */
#define PATCH_PAGE 4096u

/* An argument of the command: LIBRARY:FUNCTION=FILE:WITH. */
struct replacement {
    char *library, *function, *file, *with;
};

struct patch_place { /* 0: none */
    uint64_t at;
    uint8_t was[8], now[8];
};

/* The page, as read from the process, which may have written anything there. */
struct patch_record {
    uint8_t jump[16]; /* ff 25 00 00 00 00, and behind it the target */
    char magic[16];
    uint64_t entry; /* of the function, where its file is mapped, behind an endbr64 */
    struct patch_place places[2]; /* there, and where moved code of concat's runs */
    char names[PATCH_PAGE - 40 - 2 * sizeof(struct patch_place)]; /* as in struct replacement, a NUL behind each */
};

struct patched { /* one that was found */
    uint64_t page;
    struct patch_record record;
    struct replacement what; /* in `record` */
    int in_force;            /* its jumps are there */
};

/* ---- entry.c: why a jump cannot take the place of a function's first bytes, or NULL.  *skip: bytes of an
 * endbr64 that stay. */
const char *entry_check(struct elf_file *, const struct elf_symbol *, unsigned *skip);

/* ---- moved.c: our loader in the process. */
struct moved {
    int is_under_mvld;
    uint64_t base;     /* where it is mapped */
    uint64_t function; /* see loader/start/outside.h */
};
/* Where the process's loader is mapped, ours or the machine's. */
uint64_t moved_loader(const struct attach *);
/* 0, or -1: the process has an mvld of another build. */
int moved_find_loader(struct attach *, struct moved *);
/* Between attach_begin() and attach_end().  Finds where PATCH_JUMP bytes of code run: at `at`, at *copy, or at
 * both. 0 or 1: `at` must not be changed; -1: error. */
int moved_places(struct attach *, const struct moved *, uint64_t at, uint64_t *copy);

/* ---- record.c */
/* Reads all records in the process.  0, or -1. */
int records_read(const struct attach *, struct patched **, size_t *n);
void record_make(struct patch_record *, const struct replacement *, uint64_t target);
/* An address for a page that jumps from all these places reach, or 0. */
uint64_t record_room(const struct attach *, const struct patch_place places[2]);
uint64_t record_target(const struct patch_record *);
int record_is_of(const struct patched *, const char *library, const char *function);

/* ---- write.c: writes `now` of each place, where `was` must be.  `pages` are ours that are to be removed: no thread may be
 * in them, either.  0, or -1: nothing has been written. */
int write_all(struct attach *, struct patch_place *, size_t n, const uint64_t *pages, size_t n_pages);

/* ---- replace.c: all of them, or none.  0, or -1 with the sentence in `why` of the process. */
int replace_functions(struct attach *, const struct replacement *, size_t n, const char *build_id);
int undo_functions(struct attach *, const struct replacement *, size_t n);

#endif
