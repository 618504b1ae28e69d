/* SPDX-License-Identifier: MIT
 *
 * rimf/copies.h: code of objects at a second place.
 *
 * All code of a program in one region, where huge pages and caches serve it best:
 * that means to run code elsewhere than where its file was mapped.  What moves is
 * decided by the analysis of each object (sidecar.h: movable units); how, by one rule:
 *
 *     ADDRESSES KEEP THEIR IDENTITY AT HOME.  Every pointer, symbol, table, answer of
 *     dlsym is what it was.  Copies are reached by direct branches of other copies, and
 *     by a jump over the first bytes of the function at home:
 *
 *         home                              region
 *         f:  [endbr64]                     f':  [endbr64]
 *             jmp f'     ───────────────►        push %rbp …
 *             (never entered: rest of f)         call g'      (another object's copy)
 *                                                lea  table(%rip)  → home
 *
 * So no relocation, symbol table or stored pointer is touched, nobody can see two
 * addresses of one function, and home stays whole but for these jumps: whatever is not
 * understood (a table of offsets that was not recognised, code without description)
 * leads home and runs there as ever.
 *
 * All copies of one object lie at one distance from home, so what leads from movable
 * code to movable code of the same object needs no change.  What changes:
 *
 *     operands that lead to data, to code (its address), home     displacement - distance
 *     calls of other objects, made direct before                  to the copy, if any
 *     the start of a jump table                                   to the table's copy
 *     .eh_frame                                                   a copy of it (copy_frames.c)
 *
 * What sees copies: program counters, return addresses.  Unwinders look into one sorted
 * table for all copies, the .eh_frame_hdr of the library whose memory the region is.
 * Who asks for the object of a return address is told the one at home
 * (rimf_copy_home; the loader sees to it that the C library asks).
 *
 * THE ORDER.  Copies are made aside, not executable; frames; then code becomes
 * executable; then the C library's questions are answered; then the jumps are written.
 * Any failure before the jumps: the region is empty again, as if nothing had been.  A
 * jump that cannot be written: that function runs at home.
 */
#ifndef RIMF_COPIES_H
#define RIMF_COPIES_H

#include "mvld/pass.h"
#include "sidecar.h"

struct rimf_object;

/* Code of one object.  `home` and `at` are equal modulo RIMF_COPY_ALIGN. */
struct rimf_copy {
    const struct rimf_object *object;
    uintptr_t home, at; /* where its movable code begins, and the copy of that place */
    size_t code;        /* bytes of code */
    size_t size;        /* with the jump tables behind it; 0: the object is gone */
};
#define RIMF_COPY_ALIGN 64u

struct rimf_copies {
    struct mvld_region region;
    struct rimf_copy *list; /* ascending */
    size_t n, room;         /* n: those that may run */
    size_t n_planned;       /* n <= n_planned: the rest waits for the commit */
    uintptr_t code_end;     /* the first page of the region that is free */
    uintptr_t frames_end;   /* and of the frames */
    size_t n_frames;        /* in the sorted table */
    size_t n_named;         /* symfile.h: the rest has no names for debuggers yet, */
    uintptr_t names;        /* which lie from here on */
    uintptr_t frames_named; /* frames behind this are without */
};

/* What is being made, for the files of rimf/. */
struct copying {
    struct mvld_image *image;
    const struct rimf_copy *copy;
    const struct sidecar *analysis;
    uintptr_t bias;    /* of the object */
    intptr_t distance; /* copy minus home */
    uint32_t *tables;  /* copy_code.c: where jump tables begin */
    const char *why;   /* the sentence for a failure (static) */
};

/* copy_code.c: the bytes, into memory that is mapped and writable.  0, or negative errno. */
int copy_code(struct copying *);
/* copy_frames.c: its .eh_frame, to `to`, and its part of the sorted table.  Ascending
 * calls; nobody finds them before copy_frames_publish. */
size_t copy_frames_size(const struct copying *);
int copy_frames(struct copying *, uintptr_t to);
void copy_frames_publish(struct rimf_copies *);
/* Bytes at the start of `frames` that belong to the table. */
size_t copy_frames_table(const struct mvld_region *);
/* Of these, the pages of `n` entries, in bytes. */
size_t copy_frames_searched(size_t n);
/* copy_entries.c: the jumps at home.  What is refused runs at home. */
int copy_entries(struct copying *, struct mvld_copies_report *);

/* Where code at `home` is copied to, or 0.  For the thread that loads. */
uintptr_t rimf_copy_of(struct mvld_image *, uintptr_t home);
/* Where the code came from, of an address in a copy, or 0.  [any thread, signal handler] */
uintptr_t rimf_copy_home(const struct mvld_image *, uintptr_t address);
/* All copies together, as a segment. */
struct mvld_segment rimf_copies_code(const struct mvld_image *);
/* The object is gone; its copies are never entered again. */
void rimf_copies_forget(struct mvld_image *, const struct mvld_object *);

/* Called when copies lie in place and nothing enters them yet; other than 0 (negative
 * errno, *why a static sentence): they are taken away again.  NULL: nothing is copied. */
void rimf_image_set_answers(struct mvld_image *, int (*answers)(void *cookie, const char **why),
                            void *cookie);

/* Of the objects that came last, no code has run yet but that which the host loader calls to
 * relocate them: 1, 0 when that is not certain. */
void rimf_image_set_unentered(struct mvld_image *, int unentered);

/* This function runs at home, whoever calls it, because somebody wants to be asked first:
 * its copy is a jump to it, and home gets none to the copy.  It has five bytes or more, and
 * nothing leads into them.  Before its object's copy is made.  There are RIMF_KEPT_HOME
 * numbers for such functions; 0: none any more. */
#define RIMF_KEPT_HOME 8u
void rimf_image_keep_home(struct mvld_image *, unsigned number, uintptr_t function);
int rimf_is_kept_home(const struct mvld_image *, uintptr_t function);

/* ---- behind rimf_api() ------------------------------------------------------------ */

int rimf_region_set(struct mvld_image *, const struct mvld_region *);
int rimf_copy_add(struct mvld_image *, const struct mvld_object *, uintptr_t from, uintptr_t *end,
                  const char **why);
int rimf_copies_commit(struct mvld_image *, struct mvld_copies_report *);

#endif
