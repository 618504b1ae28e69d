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
 * The copy of an object is one block, at one distance from home, so what leads from movable
 * code to movable code of the same object needs no change; or it is cut into PIECES, runs of
 * functions that each lie at a distance of their own, in any order, other objects' pieces
 * between them (copy_pieces.c says where it may be cut).  A piece may be left out: its
 * functions run at home, like those that cannot move.  What changes:
 *
 *     operands that lead to data, to code (its address), home     displacement - distance
 *     calls of other objects, made direct before                  to the copy, if any
 *     the start of a jump table                                   to the table's copy
 *     branches to another piece                                   to that piece
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

/* Code of one object, all of it or a piece.  `home` and `at` are equal modulo
 * RIMF_COPY_ALIGN. */
struct rimf_copy {
    const struct rimf_object *object;
    uintptr_t home, at; /* where its movable code begins, and the copy of that place */
    size_t code;        /* bytes of code */
    size_t size;        /* with what lies behind it: a byte, because a call may be the last
                         * instruction, and return addresses have a home, too; the object's jump
                         * tables, when the first of its functions that move is in it.  0: the
                         * object is gone */
};
#define RIMF_COPY_ALIGN 64u
/* Where jump tables lie behind it, if they do. */
static inline uintptr_t copies_tables(const struct rimf_copy *copy)
{
    return (copy->at + copy->code + 1 + 7) & ~(uintptr_t)7;
}

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
    enum mvld_pages pages;  /* wanted, of what comes next */
    int pool_moves;         /* pages of the pool could be moved once */
    uint64_t of_pool[4];    /* copy_pages.c: by 2 MiB of the region: a page of the pool */
};

/* What is being made of one object, for the files of rimf/. */
struct copying {
    struct mvld_image *image;
    struct rimf_object *object;
    const struct sidecar *analysis; /* with the branches, when there are several pieces */
    uintptr_t bias;                 /* of the object */
    const struct rimf_copy *copy;   /* the piece at hand (copying_at) */
    intptr_t distance;              /* copy minus home, of that piece */
    uint32_t *tables;               /* copy_code.c: where jump tables begin; */
    struct copy_found *found;       /* where the last calls led */
    const char *why;                /* the sentence for a failure (static) */
};

/* copy_pieces.c.  The list's index-th copy is one of the object's; 0, or -ENOMEM. */
int copies_note(struct mvld_image *, struct rimf_object *, size_t index);
void copies_drop(struct mvld_image *, struct rimf_object *); /* it has none */
/* By home. */
void copies_sort(const struct rimf_copies *, struct rimf_object *);
/* The piece that the address at home is in, or NULL. */
const struct rimf_copy *copies_piece(const struct rimf_copies *, struct rimf_object *,
                                     uintptr_t home);
/* Makes that piece the one at hand; 0: there is none. */
int copying_at(struct copying *, uintptr_t home);
/* 1 when the range, as linked, may lie elsewhere than its neighbours. */
int copies_is_piece(const struct sidecar *, uint32_t start, size_t size);
/* image_copies.c: why an object that is so analysed has no copy, or NULL. */
const char *copies_stay(const struct rimf_object *, const struct sidecar *);
/* 1 when the index-th of the list is the first of its object, which is still there. */
int copies_is_first(const struct rimf_copies *, size_t index);

/* copy_code.c: the bytes, into memory that is mapped and writable.  0, or negative errno. */
int copy_code(struct copying *);
/* copy_frames.c: its .eh_frame, to `to`. */
size_t copy_frames_size(const struct copying *);
int copy_frames(struct copying *, uintptr_t to);
/* Of the piece at hand, the part of the sorted table, once its .eh_frame is at `to`.  Pieces
 * ascend; nobody finds them before copy_frames_publish. */
int copy_frames_sorted(struct copying *, uintptr_t to);
void copy_frames_publish(struct rimf_copies *);
/* Where the code begins that one record describes and that [at, at + length) of a copy is
 * in, or 0.  [any thread] */
uintptr_t copy_frames_start(const struct rimf_copies *, uintptr_t at, size_t length);
/* Bytes at the start of `frames` that belong to the table. */
size_t copy_frames_table(const struct mvld_region *);
/* Of these, the pages of `n` entries, in bytes. */
size_t copy_frames_searched(size_t n);
/* copy_pages.c: zeroed memory that may be written, in the place of what the region reserved;
 * of as large pages as wanted and had.  0, or negative errno. */
long copy_pages_open(struct mvld_image *, uintptr_t start, uintptr_t end);
/* Once they are executable: the kernel joins small ones, if wanted. */
void copy_pages_join(struct mvld_image *, uintptr_t start, uintptr_t end);
/* Code of a frozen image is mapped here, small, from `offset` of its file on: makes pages as
 * wanted.  0, or negative errno: what was there may be gone. */
long copy_pages_of_file(struct mvld_image *, uintptr_t start, uintptr_t end, uint64_t offset);
/* Where in a file, from `least` on, the code of the region can have huge pages. */
uint64_t copy_pages_offset(const struct rimf_copies *, uint64_t least);
/* Nobody runs there any more, and nobody will. */
void copy_pages_give_back(struct mvld_image *, uintptr_t start, uintptr_t end);
/* The page in which this address lies is about to be changed.  0, or negative errno. */
int copy_pages_soften(struct mvld_image *, uintptr_t address);
/* The first place behind `address` where a page of the pool begins; else `end`. */
uintptr_t copy_pages_next(const struct rimf_copies *, uintptr_t address, uintptr_t end);
/* copy_entries.c: the jumps at home.  What is refused runs at home. */
int copy_entries(struct copying *, struct mvld_copies_report *);

/* Where code at `home` is copied to, or 0.  For the thread that loads. */
uintptr_t rimf_copy_of(struct mvld_image *, uintptr_t home);
/* Where the code came from, of an address in a copy, or 0.  [any thread, signal handler] */
uintptr_t rimf_copy_home(const struct mvld_image *, uintptr_t address);
/* Copies around this address, as a segment in which 4 KiB may be changed, or -ENOMEM. */
int rimf_copies_code(struct mvld_image *, uintptr_t address, struct mvld_segment *);
/* Where the code at [home, home + length), inside one function, runs: its copy, or 0, and
 * 1: at home, too; 0: not at home, where the image's jump to the copy stands in its place;
 * 2: no code of its object has a copy (copy_places.c).  [any thread] */
int rimf_copy_find(const struct mvld_image *, uintptr_t home, size_t length, uintptr_t *copy);
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
void rimf_image_keep_home(struct mvld_image *, unsigned number, uintptr_t function, size_t size);
/* What was said of that number, here or in the process that froze the image: 0: nothing. */
uintptr_t rimf_image_kept_home(const struct mvld_image *, unsigned number, size_t *size);
int rimf_is_kept_home(const struct mvld_image *, uintptr_t function);

/* ---- behind rimf_api() ------------------------------------------------------------ */

int rimf_region_set(struct mvld_image *, const struct mvld_region *);
int rimf_copy_add(struct mvld_image *, const struct mvld_object *, uintptr_t from, uintptr_t *end,
                  const char **why);
size_t rimf_copy_pieces(struct mvld_image *, const struct mvld_object *, struct mvld_piece *,
                        size_t room, const char **why);
int rimf_copy_add_piece(struct mvld_image *, const struct mvld_object *, const struct mvld_piece *,
                        uintptr_t from, uintptr_t *end, const char **why);
int rimf_copies_commit(struct mvld_image *, struct mvld_copies_report *);
int rimf_region_pages(struct mvld_image *, enum mvld_pages);

#endif
