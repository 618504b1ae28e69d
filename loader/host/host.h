/* SPDX-License-Identifier: MIT
 *
 * loader/host/host.h: the host loader, as a file that we map and whose text we change before it
 * runs.
 */
#ifndef LOADER_HOST_H
#define LOADER_HOST_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

#include "loader/loader.h"

struct arena;
struct rimf_sys;

/* ---- host.c ---------------------------------------------------------------- */

struct host {
    const char *path;
    int fd; /* open until its text is written: clean text can be mapped from it */
    int musl;
    uintptr_t bias, start, end, entry;
    uintptr_t text, text_end; /* whole pages */
    uint64_t text_offset;     /* in the file */
    uintptr_t writable, writable_end;
    uintptr_t relro, relro_end;
    int by_mprotect; /* written by this method */
    uintptr_t tail; /* behind its text: space for TEXT_PATCHES far jumps, or 0 */
    const Elf64_Phdr *phdr;
    size_t phnum;
    const Elf64_Dyn *dynamic;
};

int host_is_ours(const void *head, size_t size);
int host_parse(struct host *, const void *head, size_t size, uint64_t *low, uint64_t *high,
               uint64_t *align);
int host_map(const struct rimf_sys *, struct host *, struct arena *);
#define HOST_CANDIDATES 4
int host_open(struct loader *, int *errors);
void host_explain(const struct loader *, const int *errors, char *why, size_t size);

/* ---- host/text.c ------------------------------------------------------------ */

#define MMAP_SITE_SIZE 64
#define MMAP_SITE_CODE 7  /* bytes of the host loader's for which it stands */
#define MMAP_MUSL_SIZE 10
#define TEXT_PATCHES (1 + MMAP_SITES)
#define FAR_JUMP 16 /* bytes */
extern const uint8_t loader_cpuid_stubs[] RIMF_HIDDEN; /* host/entry.S: one for each question */
#define CPUID_STUB_SIZE 80
#define CPUID_STUB_CODE 4 /* bytes before those of the host loader's */

/* A cpuid of the host loader, with the instructions before it, which its stub repeats. */
struct question {
    uint32_t at;   /* linked address of the first instruction */
    uint8_t size;  /* of these */
    uint8_t again; /* it is executed repeatedly */
};

struct text_patch {
    uintptr_t at;
    uint8_t length;
    uint8_t bytes[15];
};

/* Where the host loader's jumps lead. */
struct host_entries {
    uintptr_t hook;      /* stands in for _dl_debug_state */
    uintptr_t mmap;      /* MMAP_SITES entries of MMAP_SITE_SIZE bytes; 0: its calls of mmap stay */
    uintptr_t mmap_musl; /* for MMAP_MUSL_SIZE bytes of musl's */
};
int host_hook(struct loader *, const struct host_entries *);
int text_write(const struct rimf_sys *, struct host *, const struct text_patch *, size_t n,
               const char **how);
/* Makes patches (at most two each) for those of `n` questions that are answered from memory;
 * returns the number of patches, and *put. */
size_t text_questions(struct loader *, const struct question *, size_t n, struct text_patch *,
                      size_t *put);

/* Writes again, if mprotect was the method, while no code of the program has run.  0, or negative
 * errno and nothing is changed. */
int text_write_again(const struct rimf_sys *, const struct host *, const struct text_patch *,
                     size_t n);

/* ---- host/sites.c ----------------------------------------------------------- */

/* Defined there, and inside of what is mapped; or NULL. */
const Elf64_Sym *host_symbol(const struct host *, const char *name);
size_t host_mmap_sites(const struct host *, uintptr_t *sites);
size_t host_mmap_musl(const struct host *, uintptr_t *place);
size_t host_questions(const struct host *, const struct question **);
/* The address where the host loader continues after question `i` of these; 0 if its code is not as
 * expected. */
uintptr_t host_question_end(const struct host *, const struct question *, size_t i);

#endif
