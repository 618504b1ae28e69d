/* SPDX-License-Identifier: MIT
 *
 * rimf/image/original.h: the list of moved code, for readers of addresses.  rimf/moved/moved.h has how it
 * is made.
 */
#ifndef RIMF_ORIGINAL_H
#define RIMF_ORIGINAL_H

#include "mvld/pass.h"

struct analysis_fixed;
struct rimf_object;
struct rimf_table;

/* Code of one object, all of it or a fragment.  `original` and `at` are equal modulo RIMF_MOVED_ALIGN,
 * because functions are aligned; for all code of an object modulo RIMF_MOVED_LINE, so that alignment to
 * cache lines is preserved. */
struct moved_fragment {
    const struct rimf_object *object;
    const struct mvld_context *mover; /* the pass that moved it; NULL: a snapshot's */
    uintptr_t original, at; /* start of its movable code, and its new address */
    size_t code;        /* bytes of code */
    size_t size;        /* with the bytes behind it: one, because a call may be the last instruction, and
                         * return addresses need an original, too; and the object's jump tables, if this has
                         * the first of its moved functions. 0: the object was closed */
    int is_canonical;   /* canonical addresses are in moved code, */
    struct analysis_fixed *fixed; /* except for this code; ascending, from `original` on */
    size_t n_fixed;
    struct moved_batch *batch; /* moved with it; NULL: never given back */
};

/* What moved together after the start.  Its memory is given back when all of its objects are closed. */
struct moved_batch {
    size_t n_objects; /* those that are not closed */
    uintptr_t code, code_end, frames, frames_end; /* its pages */
    uintptr_t names, names_end; /* and those of its names; or zeros */
    struct jit_entry *named;    /* moved/names.c */
};
#define RIMF_MOVED_ALIGN 16u
#define RIMF_MOVED_LINE 64u
/* The address of jump tables behind it, if any. */
static inline uintptr_t moved_tables_at(const struct moved_fragment *fragment)
{
    return (fragment->at + fragment->code + 1 + 7) & ~(uintptr_t)7;
}

/* An element of the list of an object's fragments. */
struct moved_place {
    uintptr_t original; /* first: for rimf_sort */
    size_t index;
};

/* Addresses that a library reserved, mapped neither writable nor executable: for code, and for its unwind
 * tables.  The library's PT_GNU_EH_FRAME points to the start of `frames`.  All in whole pages. */
struct rimf_region {
    uintptr_t code, frames;
    size_t code_size, frames_size;
};

struct moved_code {
    struct rimf_region region;
    struct moved_fragment *list; /* ascending */
    size_t n, room;         /* n: those that may run */
    size_t n_planned;       /* n <= n_planned: the rest waits for the commit */
    uintptr_t code_end;     /* the first free page of the region */
    uintptr_t frames_end;   /* and of the frames */
    size_t n_frames;        /* in the sorted table */
    size_t n_named;         /* symfile.h: the rest has no names for debuggers yet, */
    uintptr_t names;        /* whose names start here */
    uintptr_t frames_named; /* frames behind this have no names */
    enum mvld_pages pages;  /* wanted for later code; never MVLD_PAGES_HOT: */
    uintptr_t hot_end;      /* no huge pages behind it; 0: not set */
    int hot_wanted;         /* set to the end of the next batch's hot code */
    uintptr_t first;        /* start of code if there is none yet */
    const struct mvld_context *mover; /* the pass that moves code now, or NULL */
    uint32_t names_for;     /* MVLD_NAMES_* */
    size_t n_perf;          /* moved/names.c: the rest has no names for perf yet, */
    int has_perf;           /* there is a file with names */
    struct added_code *added; /* realise/added.c: of the running pass */
    /* moved_find of mvld/pass.h */
    int (*find)(const struct mvld_image *, uintptr_t original, size_t length, uintptr_t *to);
};

/* The original address of an address in moved code, or 0.  [any thread, signal handler] */
uintptr_t rimf_original_of(const struct mvld_image *, uintptr_t address);
/* Whether code of the object has moved, and is not only planned to. */
int rimf_has_moved(const struct mvld_image *, const struct rimf_object *);
/* The address; for one in moved code, the original. */
uintptr_t rimf_unmoved(const struct mvld_image *, uintptr_t address);

#endif
