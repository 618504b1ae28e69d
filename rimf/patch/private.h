/* SPDX-License-Identifier: MIT
 *
 * rimf/patch/private.h: shared by the files of the patch engine.
 *
 * A file calls files of its row and of rows below:
 *
 *     patch                                  a commit, from its lock to its end
 *     mprotect                               the first method
 *     remap, selfmem                         the others, a circle: what one cannot undo, the other one undoes
 *     words
 *     verify, insn                           what may be changed
 *     batch, maps; process, crash            a circle, too: a handler of ours counts as none
 */
#ifndef RIMF_PATCH_PRIVATE_H
#define RIMF_PATCH_PRIVATE_H

#include <errno.h>
#include <sys/mman.h>

#include "rimf/base/base.h"
#include "rimf/base/lock.h"
#include "rimf/patch/patch.h"

#define PATCH_RX (PROT_READ | PROT_EXEC)
#define PATCH_RW (PROT_READ | PROT_WRITE)

/* Code that runs while other code of its segment is not executable: it must not be in a page that it
 * changes, so it has its own section (patch_window_hits). */
#define PATCH_WINDOW __attribute__((section("mvld_patch_text"), noinline))

/* ---- what is mapped (patch/maps.c) ------------------------------------- */

struct patch_vma {
    uintptr_t start, end;
    uint32_t prot;
    int shared;
    uint64_t page_size; /* 0: unknown, ordinary pages */
    uint64_t offset, device, inode;
};

struct patch_maps {
    const struct rimf_sys *sys;
    int fd;
    int text;          /* the kernel has no PROCMAP_QUERY: read lines */
    int answered;      /* it has: an ioctl on this descriptor succeeded */
    int kept;          /* the descriptor stays open between batches, and has this identity: */
    uint64_t kept_device, kept_inode;
    struct patch_vma last; /* the line read last */
    size_t fill, next;     /* of buffer */
    int ended, unread;     /* the last line was read; or an earlier one cannot be read */
    char buffer[4096];
};

/* Unless `alone`, the file of this thread, which takes longer to open: the process's is the first thread's, and is empty when
 * that has ended. */
int patch_maps_open(struct patch_maps *, const struct rimf_sys *, int alone);
void patch_maps_close(struct patch_maps *);
/* Around the only opening of a batch, if nothing else runs: reuses the descriptor of the last batch, if it
 * is still ours, and leaves it open for the next.  `own`: 0 after a fork, when the descriptor refers to the
 * parent's memory. */
int patch_maps_reopen(struct patch_maps *, const struct rimf_sys *, int own);
void patch_maps_keep(struct patch_maps *);
void patch_maps_forget(struct patch_maps *);
/* The mapping that contains `address`: 0, or -ENOENT.  Addresses of successive queries must ascend, and a
 * query for a name (else NULL) must be the first. */
int patch_maps_find(struct patch_maps *, uintptr_t address, struct patch_vma *out, char *name,
                    size_t name_size);

/* ---- a batch ------------------------------------------------------------ */

/* Executable memory without a hole: one or more adjacent mappings, all private and R-X. */
struct patch_region {
    uintptr_t start, end;
    uint64_t offset, device, inode; /* of start; inode 0: no file, or several */
    uint64_t page_size;
    /* patch/remap.c: a copy, and the address that its first byte replaces */
    uintptr_t aside, aside_of;
    size_t aside_size;
    int aside_is_file; /* of the same file, by ordinary pages */
};

/* Pages that are changed together: [start, stop) of one region, for the patches [first, end) by address. */
struct patch_run {
    uintptr_t start, stop;
    size_t first, end;
    size_t region;
};

/* One call of rimf_patch_add_words, or, without `expect`, of rimf_patch_add_writer. */
struct patch_words {
    uintptr_t base;
    const struct mvld_word *words;
    const uint64_t *expect, *replace;
    size_t n;
    void (*write)(void *cookie, uintptr_t end);
    void *cookie;
};

struct patch_span {
    uintptr_t start, end;
};

struct mvld_batch {
    struct rimf_patcher *patcher;
    struct mvld_patch *patches; /* as added */
    size_t n, capacity;
    int ascending;    /* the order of adding is by address */
    int unentered;    /* rimf_patch_unentered */
    int all_copies;   /* rimf_patch_all_copies, */
    size_t n_added;   /* number of patches before the expanded words; set by commit */
    uintptr_t last;   /* the address added last */
    struct patch_order { /* otherwise sorted by address, made by commit */
        uintptr_t address;
        size_t index;
    } *order;
    struct patch_region *regions; /* by address, made by commit */
    size_t n_regions, regions_capacity;
    struct patch_run *runs; /* by address, made by a method */
    size_t n_runs, runs_capacity;
    struct patch_words *words;
    size_t n_words, words_capacity;
};

struct patch_method {
    const char *name;
    /* Applies every patch with result 0.  0: done.  Negative errno: nothing has changed.  1: done in part;
     * `result` says which. */
    int (*apply)(struct mvld_batch *);
};
extern const struct patch_method patch_method_mprotect, patch_method_remap, patch_method_selfmem;

struct rimf_patcher {
    struct rimf_patch_host host;
    const struct patch_method *forced;
    uintptr_t scratch; /* one R-X page to try permissions on */
    uintptr_t reserve; /* patch/remap.c: mappings */
    int often;         /* batches are frequent: rimf_patcher_often */
    int wiped;         /* the kernel clears a child's copy of the scratch page */
    struct mvld_batch *spare; /* the last batch, whose arrays the next one reuses */
    int alone; /* for the present batch: nothing else runs in this address space */
    int mem;   /* /proc/self/mem, between patch_mem_open and _close */
    struct patch_maps maps;
    char name[4096]; /* of a mapping */
};

/* The i-th by address. */
static inline __attribute__((always_inline)) struct mvld_patch *patch_nth(const struct mvld_batch *b, size_t i)
{
    return &b->patches[b->order ? b->order[i].index : i];
}

/* Of a batch, or of none. */
void patch_release(const struct rimf_patch_host *, struct mvld_batch *);
/* Makes the array, whose pointer is at `array`, longer, if it is full with `n` elements: 0, or -ENOMEM. */
int patch_longer(const struct rimf_patch_host *, void *array, size_t n, size_t size, size_t *capacity);
/* Sorts: 0, -ENOMEM. */
int patch_order(struct mvld_batch *);
/* Sets the `result` of patches that may not be applied; returns their number. */
size_t patch_verify(struct mvld_batch *);
/* If undoing failed: finds the patches in force, and sets `err` for the others.  Returns 1, for `apply`. */
int patch_finish(struct mvld_batch *, int err);
/* Returns 0 if the bytes [start, end) are in code that may be changed; `known` is more such code around
 * them.  Addresses ascend; `segment` and `known` are initially zero. */
int patch_place(struct mvld_batch *, uintptr_t start, uintptr_t end, struct mvld_segment *segment,
                struct patch_span *known);
/* Adds an unset run, or returns NULL. */
struct patch_run *patch_run_add(struct mvld_batch *);
/* Expands the words to patches: 0, or why one is wrong. */
int patch_words_expand(struct mvld_batch *);
/* While nobody else runs the code.  0: all words can be written at once, their runs are made, and *n is the
 * number of those that change something.  Negative: try patch_words_expand.  (patch/words.c) */
int patch_words_verify(struct mvld_batch *, size_t *n);
/* Writes patches and words whose runs were made: as `apply` of struct patch_method. */
int patch_mprotect_runs(struct mvld_batch *);
/* One mprotect over a hole costs by the page, a pair of calls around it by the call.  This is the
 * break-even: 0.15 us a page and 4 us a pair on the measured machine (`bench/patch gaps`). */
#define PATCH_GAP (32 * RIMF_PAGE)
/* Makes `runs`: patches whose pages are at most `gap` bytes apart and in one region are in one run.  0,
 * -ENOMEM. */
int patch_runs(struct mvld_batch *, uintptr_t gap);
/* Copies the bytes of one patch, 1 to 16.  Inline, because memcpy's code may be anywhere; with two
 * overlapping loads and stores if possible. */
static inline __attribute__((always_inline)) void patch_copy(void *to, const void *from, size_t n)
{
    uint64_t head8, tail8;
    uint32_t head4, tail4;

    if (n >= 8) {
        __builtin_memcpy(&head8, from, 8);
        __builtin_memcpy(&tail8, (const char *)from + n - 8, 8);
        __builtin_memcpy(to, &head8, 8);
        __builtin_memcpy((char *)to + n - 8, &tail8, 8);
    } else if (n >= 4) {
        __builtin_memcpy(&head4, from, 4);
        __builtin_memcpy(&tail4, (const char *)from + n - 4, 4);
        __builtin_memcpy(to, &head4, 4);
        __builtin_memcpy((char *)to + n - 4, &tail4, 4);
    } else {
        for (size_t i = 0; i < n; i++)
            ((volatile char *)to)[i] = ((const char *)from)[i];
    }
}

static inline __attribute__((always_inline)) uint32_t patch_load4(uintptr_t at)
{
    uint32_t value;

    __builtin_memcpy(&value, (const void *)at, 4);
    return value;
}

static inline __attribute__((always_inline)) void patch_store4(uintptr_t at, uint32_t value)
{
    __builtin_memcpy((void *)at, &value, 4);
}

static inline __attribute__((always_inline)) int patch_same(const void *a, const void *b, size_t n)
{
    uint64_t a8[2], b8[2];
    uint32_t a4[2], b4[2];

    if (n >= 8) {
        __builtin_memcpy(&a8[0], a, 8);
        __builtin_memcpy(&a8[1], (const char *)a + n - 8, 8);
        __builtin_memcpy(&b8[0], b, 8);
        __builtin_memcpy(&b8[1], (const char *)b + n - 8, 8);
        return a8[0] == b8[0] && a8[1] == b8[1];
    }
    if (n >= 4) {
        __builtin_memcpy(&a4[0], a, 4);
        __builtin_memcpy(&a4[1], (const char *)a + n - 4, 4);
        __builtin_memcpy(&b4[0], b, 4);
        __builtin_memcpy(&b4[1], (const char *)b + n - 4, 4);
        return a4[0] == b4[0] && a4[1] == b4[1];
    }
    for (size_t i = 0; i < n; i++) {
        if (((const volatile char *)a)[i] != ((const char *)b)[i])
            return 0;
    }
    return 1;
}

void patch_say(const struct rimf_patcher *, int err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- what this process may do (patch/process.c) -------------------------- */

#define PATCH_SIGNAL(n) (1ul << ((n) - 1))
/* Signals that an instruction of a commit may raise, or a filter instead of a system call: TRAP, BUS, SEGV,
 * SYS.  The kernel ends a process in which such a signal is blocked.  (Nothing here raises ILL and FPE; if
 * somebody sends one, it waits until the commit is over.) */
#define PATCH_SYNCHRONOUS (PATCH_SIGNAL(5) | PATCH_SIGNAL(7) | PATCH_SIGNAL(11) | PATCH_SIGNAL(31))

#define FLAG_SIGINFO 4u
#define FLAG_RESTORER 0x04000000u
#define FLAG_RESETHAND 0x80000000u

struct patch_siginfo { /* the head of siginfo_t */
    int32_t signal, error, code;
};

/* The return address of a handler (patch/process.c). */
void patch_restorer(void);
/* Whether it is the handler of patch/crash.c, which runs none of the program's code. */
int patch_is_crash_handler(uintptr_t handler);

/* Blocks all other signals in this thread, and restores them. */
int patch_signals_off(const struct rimf_sys *, uint64_t *before);
void patch_signals_back(const struct rimf_sys *, const uint64_t *before);
/* Returns 1 if the program has a handler of a signal that is not blocked, which may run in this thread during
 * a commit and call the code that is being patched. */
int patch_handlers_may_run(const struct rimf_sys *);
/* Returns 1 if there is no other thread, nor another process in the same address space. */
int patch_alone(const struct rimf_sys *);
/* Returns 1 if there is no other thread.  Uses only a call that the host loader makes, too. */
int patch_single_thread(const struct rimf_sys *);
/* Returns 0 if mprotect may take a page from RW- to R-X, as far as can be known. */
int patch_mprotect_allowed(struct rimf_patcher *);
/* Returns 1 in a child of fork that has not committed yet. */
int patch_is_child(struct rimf_patcher *);
/* Makes patch_is_child work in later children.  0, or negative errno. */
int patch_mark_parent(struct rimf_patcher *);
/* Writes through /proc/self/mem, regardless of protections. */
int patch_mem_open(struct rimf_patcher *);
int patch_mem_write(struct rimf_patcher *, uintptr_t at, const void *bytes, size_t n);
void patch_mem_close(struct rimf_patcher *);
/* Makes every CPU that runs this process execute a serialising instruction. */
int patch_sync_cores(struct rimf_patcher *);

/* ---- for threads ----------------------------------------------------------- */

/* Returns 1 if no thread can stand between these bytes (patch/insn.c). */
int patch_one_instruction(const uint8_t *code, size_t length);

/* Moves copies over the first n runs, with new bytes or (back) old ones. */
int patch_remap_runs(struct mvld_batch *, size_t n, int back);
void patch_reserve_release(struct rimf_patcher *);
/* Writes all old bytes, by /proc/self/mem. */
int patch_mem_back(struct mvld_batch *);

#endif
