/* SPDX-License-Identifier: MIT
 *
 * rimf/image/original.h: the list of code that runs elsewhere than where it was mapped, as far as
 * those must know it who read addresses.  How it is made: rimf/moved/moved.h.
 */
#ifndef RIMF_ORIGINAL_H
#define RIMF_ORIGINAL_H

#include "mvld/pass.h"

struct analysis_fixed;
struct moved_words; /* rimf/moved/moved.h */
struct rimf_object;
struct rimf_table;

/* Code of one object, all of it or a fragment.  `original` and `at` are equal modulo
 * RIMF_MOVED_ALIGN, as far as functions are aligned; of all of it modulo RIMF_MOVED_LINE, so that
 * what lay well in the lines of the cache does so again. */
struct moved_fragment {
    const struct rimf_object *object;
    const struct mvld_context *mover; /* the pass that moved it; NULL: a snapshot's */
    uintptr_t original, at; /* where its movable code begins, and where that moved to */
    size_t code;        /* bytes of code */
    size_t size;        /* with what lies behind it: a byte, because a call may be the last
                         * instruction, and return addresses have an original, too; the object's jump
                         * tables, when the first of its functions that move is in it.  0: the
                         * object is gone */
    int is_canonical;   /* canonical addresses of it are those here, */
    struct analysis_fixed *fixed; /* but for this code; ascending, from `original` on */
    size_t n_fixed;
};
#define RIMF_MOVED_ALIGN 16u
#define RIMF_MOVED_LINE 64u
/* Where jump tables lie behind it, if they do. */
static inline uintptr_t moved_tables_at(const struct moved_fragment *fragment)
{
    return (fragment->at + fragment->code + 1 + 7) & ~(uintptr_t)7;
}

/* In the list; of an object's fragments one each. */
struct moved_place {
    uintptr_t original; /* first: for rimf_sort */
    size_t index;
};

/* Address space that a library reserved, which nobody may write or run: for code, and for the unwind
 * tables of that code.  The library's PT_GNU_EH_FRAME leads to the start of `frames`.  All in whole
 * pages. */
struct rimf_region {
    uintptr_t code, frames;
    size_t code_size, frames_size;
};

struct moved_code {
    struct rimf_region region;
    struct moved_fragment *list; /* ascending */
    size_t n, room;         /* n: those that may run */
    size_t n_planned;       /* n <= n_planned: the rest waits for the commit */
    uintptr_t code_end;     /* the first page of the region that is free */
    uintptr_t frames_end;   /* and of the frames */
    size_t n_frames;        /* in the sorted table */
    size_t n_named;         /* symfile.h: the rest has no names for debuggers yet, */
    uintptr_t names;        /* which lie from here on */
    uintptr_t frames_named; /* frames behind this are without */
    enum mvld_pages pages;  /* wanted, of what comes next; never MVLD_PAGES_HOT: */
    uintptr_t hot_end;      /* behind it nothing is paid for huge pages; 0: nothing was said */
    int hot_wanted;         /* it is where what is hot of the next batch ends */
    uintptr_t first;        /* where code begins when there is none yet */
    const struct mvld_context *mover; /* the pass that moves code at the moment, or NULL */
    uint32_t names_for;     /* MVLD_NAMES_* */
    size_t n_perf;          /* moved/names.c: the rest has no names for perf yet, */
    int has_perf;           /* and there is a file with names */
    struct added_code *added; /* realise/added.c: of the pass that runs */
    int pool_moves;         /* pages of the pool could be moved once */
    uint64_t of_pool[4];    /* moved/pages.c: by 2 MiB of the region: a page of the pool */
    /* Copies around this address, as a segment in which 4 KiB may be changed, or -ENOMEM. */
    int (*code_at)(struct mvld_image *, uintptr_t address, struct mvld_segment *);
    /* moved_find of mvld/pass.h */
    int (*find)(const struct mvld_image *, uintptr_t original, size_t length, uintptr_t *to);
    struct moved_words *words; /* moved/words.c: free memory for the next, in a batch */
};

/* Where the code was mapped, of an address in moved code, or 0.  [any thread, signal
 * handler] */
uintptr_t rimf_original_of(const struct mvld_image *, uintptr_t address);
/* Code of the object runs elsewhere by now, and is not only planned to. */
int rimf_has_moved(const struct mvld_image *, const struct rimf_object *);
/* The address; of one in moved code, where that was mapped. */
static inline uintptr_t rimf_unmoved(const struct mvld_image *image, uintptr_t address)
{
    uintptr_t original = rimf_original_of(image, address);

    return original ? original : address;
}

#endif
