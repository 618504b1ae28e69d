/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/moved.h: code of objects at a second place.
 *
 * All code of a program in one region, where huge pages and caches serve it best:
 * that means to run code elsewhere than where its file was mapped.  What moves is
 * decided by the analysis of each object (analysis/analysis.h: movable units); how, by one rule:
 *
 *     A FUNCTION HAS ONE ADDRESS, the same for everybody who can compare: that of its copy.
 *     Where that is not certain, the one at home.
 *
 *         home                              region
 *         f:  [endbr64]                     f':  [endbr64]
 *             jmp f'     ───────────────►        push %rbp …
 *             (rest of f)                        call g'      (another object's copy)
 *                                                lea  table(%rip)  → home
 *         slot: f'       ───────────────►        lea  h(%rip)      → h'
 *
 * So pointers, vtables, tables of labels lead to copies, and who calls through them stays
 * there.  Who holds addresses, before any code of the program has run:
 *
 *     relocated words of all objects                      moved/slots.c
 *     lea in movable code, in copies and at home          moved/code.c, moved/operands.c
 *     the answers of dlsym and dladdr                     loader/caller/hooks.c
 *     code that stays home, or is not understood          nobody can change: what it takes the
 *                                                         address of keeps it (analysis/analysis.h, HOMES)
 *     words that cannot be written, thread-locals         likewise (moved/canonical.c)
 *
 * What comes by dlopen is treated before its constructors; its words lead to old copies and to
 * new ones.  Functions that are kept at home (rimf_image_keep_home) keep their addresses, as
 * does all of an object whose analysis or whose moment does not allow it.
 *
 * Home stays whole but for these operands and the jumps: whatever is not understood (a table of
 * offsets that was not recognised, an address that was computed in another way) leads home,
 * and enters the copy there, or runs at home as ever.  Which functions have a jump, where most
 * need none, moved/entries.c tells.
 *
 * The copy of an object is one block, at one distance from home, so what leads from movable
 * code to movable code of the same object needs no change; or it is cut into PIECES, runs of
 * functions that each lie at a distance of their own, in any order, other objects' fragments
 * between them (moved/fragments.c says where it may be cut).  A fragment may be left out: its
 * functions run at home, like those that cannot move.  What changes:
 *
 *     operands that lead to data, to code that keeps its address  displacement - distance
 *     calls of other objects, made direct before or now           to the copy, if any
 *     the start of a jump table                                   to the table's copy
 *     branches to another fragment                                   to that fragment
 *     .eh_frame                                                   a copy of it (moved/frames.c)
 *
 * What sees copies: program counters, return addresses.  Unwinders look into one sorted
 * table for all copies, the .eh_frame_hdr of the library whose memory the region is.
 * Who asks for the object of a return address is told the one at home
 * (rimf_copy_home; the loader sees to it that the C library asks).
 *
 * THE ORDER.  What can be written is made writable, and it is decided whose addresses are the
 * copies'.  Copies are made aside, not executable; frames; then code becomes executable; then
 * the C library's questions are answered; then operands at home lead to copies, all of them.
 * Any failure so far: the region is empty again, as if nothing had been.  Then words are
 * written, which cannot fail; then the jumps.  A jump that cannot be written: who computes that
 * function's address by a way that was not seen runs it at home.
 */
#ifndef RIMF_COPIES_H
#define RIMF_COPIES_H

#include "rimf/base/base.h"
#include "mvld/pass.h"
#include "rimf/analysis/analysis.h"
#include "rimf/image/original.h"

/* What is being made of one object, for the files of rimf/. */
struct copying {
    struct mvld_image *image;
    struct rimf_object *object;
    const struct analysis *analysis; /* with the branches, when there are several fragments */
    uintptr_t bias;                 /* of the object */
    const struct rimf_copy *copy;   /* the fragment at hand (copying_at) */
    intptr_t distance;              /* copy minus home, of that fragment */
    struct copy_answers *answers;   /* moved/calls.c: for copy_code */
    uint32_t *tables;               /* moved/code.c: where jump tables begin */
    const char *why;                /* the sentence for a failure (static) */
};

/* copy_lines.c: how far behind the beginning of a line this code had best begin, a multiple of
 * RIMF_COPY_ALIGN, as which it is aligned. */
unsigned copy_line(const uint8_t *code, size_t size);

/* moved/fragments.c.  The list's index-th copy is one of the object's; 0, or -ENOMEM. */
int copies_note(struct mvld_image *, struct rimf_object *, size_t index);
void copies_drop(struct mvld_image *, struct rimf_object *); /* it has none */
/* By home. */
void copies_sort(const struct rimf_copies *, struct rimf_object *);
/* The fragment that the address at home is in, or NULL. */
const struct rimf_copy *copies_fragment(const struct rimf_copies *, struct rimf_object *,
                                     uintptr_t home);
/* The fragment that [home, home + length) is in, if it was made and is still there. [any thread] */
const struct rimf_copy *copies_fragment_made(const struct rimf_copies *, const struct mvld_object *,
                                          uintptr_t home, size_t length);
/* 1 when a copy that an image lists may be of that home, which is rounded down: to before the segment
 * if need be (lld's begin anywhere). */
int copies_fit_home(const struct rimf_object *, uintptr_t home, size_t code);
/* Makes that fragment the one at hand; 0: there is none. */
int copying_at(struct copying *, uintptr_t home);
/* 1 when the range, as linked, may lie elsewhere than its neighbours. */
int copies_is_fragment(const struct analysis *, uint32_t start, size_t size);
/* moved/plan.c: why an object that is so analysed has no copy, or NULL. */
const char *copies_stay(const struct rimf_object *, const struct analysis *);
/* 1 when the index-th of the list is the first of its object, which is still there. */
int copies_is_first(const struct rimf_copies *, size_t index);

/* moved/batch.c: says where its code is copied to. */
void copies_report(const struct mvld_image *, const struct rimf_object *);

/* moved/code.c: the bytes, into memory that is mapped and writable.  0, or negative errno. */
int copy_code(struct copying *);
/* -ENOEXEC, for that reason. */
int copying_refuse(struct copying *, const char *why);
/* Where the copy of the byte is; its fragment is at hand then.  NULL: it has none. */
uint8_t *copying_byte(struct copying *, uint32_t linked);
/* The displacement at `at`, of an instruction that ends at `next`, leads to `target`.  0, or
 * negative errno: it is too far. */
int copying_lead(struct copying *, uint8_t *at, uintptr_t next, uintptr_t target);
/* moved/calls.c: once the bytes are there, calls of other objects.  The same. */
int copy_calls(struct copying *);
/* What is known of calls, of a batch of so many; released by who asked.  NULL: no memory. */
struct copy_answers *copy_answers_create(struct mvld_image *, size_t calls);
/* moved/frames.c: of what rimf_image_describe told, to `to`; before all others.  Returns its size. */
size_t copy_frames_described_size(const struct mvld_image *);
size_t copy_frames_described(struct mvld_image *, uintptr_t to);
/* Its .eh_frame, to `to`. */
size_t copy_frames_size(const struct copying *);
int copy_frames(struct copying *, uintptr_t to);
/* Of the fragment at hand, the part of the sorted table, once its .eh_frame is at `to`.  Pieces
 * ascend; nobody finds them before copy_frames_publish. */
int copy_frames_sorted(struct copying *, uintptr_t to);
void copy_frames_publish(struct rimf_copies *);
/* Where the code begins that one record describes and that [at, at + length) of a copy is
 * in, or 0.  [any thread] */
uintptr_t copy_frames_start(const struct rimf_copies *, uintptr_t at, size_t length);
/* Bytes at the start of `frames` that belong to the table. */
size_t copy_frames_table(const struct mvld_region *);
/* Of these, the pages of `n` entries, in bytes. */
#define COPY_FRAMES_HEAD 12u /* bytes */
#define COPY_FRAMES_ENTRY 8u
static inline size_t copy_frames_searched(size_t n)
{
    return rimf_page_up(COPY_FRAMES_HEAD + n * COPY_FRAMES_ENTRY);
}
/* moved/pages.c: zeroed memory that may be written, in the place of what the region reserved;
 * of as large pages as wanted and had.  0, or negative errno. */
long copy_pages_open(struct mvld_image *, uintptr_t start, uintptr_t end);
/* Zeroed memory, of which every byte will be written.  0, or negative errno. */
long copy_pages_fill(struct mvld_image *image, uintptr_t start, uintptr_t end);
/* Where pages end that hold copies up to `end`. */
uintptr_t copy_pages_end(const struct rimf_copies *, uintptr_t start, uintptr_t end);
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
/* moved/entries.c: the jumps at home.  What is refused runs at home. */
int copy_entries(struct copying *, struct mvld_copies_report *);
/* From here on it is noted who holds addresses at home of what is planned; */
void copy_entries_begin(struct mvld_image *);
/* and that a word or an operand holds this one. */
void copy_entries_held(struct mvld_image *, struct rimf_object *, uintptr_t home);

/* moved/words.c: changes of an object's code at home, of eight bytes or less each. */
#define COPY_WORDS 2048u
struct copy_words {
    struct copying *c;
    struct mvld_word words[COPY_WORDS];
    uint64_t expect[COPY_WORDS], replace[COPY_WORDS];
    size_t n, applied, refused;
};
/* NULL: no memory (said). */
struct copy_words *copy_words_begin(struct copying *);
/* What is there now becomes `bytes`.  When there is no room more, flushes. */
int copy_words_add(struct copy_words *, uintptr_t at, const void *bytes, uint16_t length);
/* 0, or negative errno; -EDEADLK: other threads may run there, and none was written. */
int copy_words_flush(struct copy_words *);
void copy_words_end(struct copy_words *);
/* The memory of it, which the next one would have had. */
void copy_words_release(struct mvld_image *);

/* moved/operands.c: at home, operands lead to copies, or with `back` home again.  0, or negative
 * errno: some do not. */
int copy_operands(struct copying *, int back);

/* moved/slots.c: relocated words.  `table` is that of the image. */
struct copy_writing; /* what writing needs: memory, and which variables were copied */
struct copied_variable { /* R_X86_64_COPY */
    uintptr_t from, to;
    size_t size;
};
/* 1: it may hold addresses that are not what they will be. */
int copy_slots_held(const struct rimf_object *);
void copy_slots_each(const struct rimf_object *, void (*visit)(void *cookie, uintptr_t slot),
                     void *cookie);
void copy_slots_each_relr(const struct rimf_object *, void (*visit)(void *cookie, uintptr_t slot),
                          void *cookie); /* those of DT_RELR alone */
/* The places of words in the writable segment that holds this one; *start == *end: none does. */
void copy_slots_writable(const struct rimf_object *, uintptr_t slot, uintptr_t *start,
                         uintptr_t *end);
/* How many there are, or -ENOENT: one was not found. */
long copy_slots_copied(const struct mvld_image *, const struct rimf_table *table,
                       void (*found)(void *cookie, const struct copied_variable *), void *cookie);
struct copy_writing *copy_slots_prepare(struct mvld_image *, const struct rimf_table *table);
size_t copy_slots_write(struct copy_writing *, const struct rimf_table *table);

/* moved/relro.c: RELRO is opened of one object; 0, or negative errno. */
int copy_relro_open_one(const struct mvld_image *, struct rimf_object *);
/* Of all that hold words; NULL, or a sentence, and none is open. */
const char *copy_relro_open(struct mvld_image *, const struct rimf_table *);
/* Of all that are open. */
void copy_relro_close(struct mvld_image *, const struct rimf_table *);

/* moved/pins.c: addresses that must stay at home.  0, or -ENOMEM; release them either way. */
struct copy_pins {
    uintptr_t *at; /* ascending */
    size_t n, room;
};
int copy_pins_find(struct copy_pins *, struct mvld_image *, const struct rimf_table *);
void copy_pins_release(struct copy_pins *, struct mvld_image *);

/* moved/canonical.c.  The address of what is at `home`, inside or outside of this copy's code; of
 * any fragment of the object. */
uintptr_t copy_identity(const struct rimf_copy *, uintptr_t home);
uintptr_t copying_identity(const struct copying *, uintptr_t home);
/* Of those that are planned: `moved` and `homes`, and RELRO can be written; or NULL, and all
 * addresses stay at home.  Then one of the two below. */
struct copy_writing *copy_identity_plan(struct mvld_image *);
void copy_identity_write(struct mvld_image *, struct copy_writing *);
void copy_identity_leave(struct mvld_image *, struct copy_writing *);

/* Where code at `home` is copied to, or 0.  For the thread that loads. */
uintptr_t rimf_copy_of(struct mvld_image *, uintptr_t home);
/* What the word holds; of an address in a copy, the one at home. */
uintptr_t copies_word(const struct mvld_image *, uintptr_t word);
/* What the program knows as the address of the code at home: that of its copy, or `home`.
 * [any thread, signal handler] */
uintptr_t rimf_identity(const struct mvld_image *, uintptr_t home);
/* Passes have run, and constructors will: objects that hold addresses of code with copies hold
 * those of the copies, if nothing of them has run (rimf_image_set_unentered). */
void rimf_image_finish(struct mvld_image *);
/* Where the code at [home, home + length), inside one function, runs: its copy, or 0, and
 * 1: at home, too; 0: not at home, where the image's jump to the copy stands in its place;
 * 2: no code of its object has a copy (moved/places.c).  [any thread] */
int rimf_copy_find(const struct mvld_image *, uintptr_t home, size_t length, uintptr_t *copy);
/* The object is gone; its copies are never entered again. */
void rimf_copies_forget(struct mvld_image *, const struct mvld_object *);

/* Called when copies lie in place and nothing enters them yet; other than 0 (negative
 * errno, *why a static sentence): they are taken away again.  NULL: nothing is copied. */
void rimf_image_set_caller_hooks(struct mvld_image *, int (*answers)(void *cookie, const char **why),
                            void *cookie);

/* Code of the library that the region is in which belongs to nobody's unwind table. */
struct rimf_described {
    uintptr_t start;
    uint32_t size;
    uint8_t frame_size;
    const uint8_t *frame; /* instructions of DWARF, from where a function begins on */
};

/* It comes among the frames of the first copies.  Ascending, before the region; `frame` outlives
 * the image. */
void rimf_image_describe(struct mvld_image *, const struct rimf_described *, size_t n);

/* While answers() runs: 1 when the code at this address is about to be laid over by that of a
 * frozen image, in which the answers of the process that made it are in force.  When that
 * cannot be done after all, nothing comes of the image. */
int rimf_image_lays_over(const struct mvld_image *, uintptr_t address);

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
size_t rimf_copy_fragments(struct mvld_image *, const struct mvld_object *, struct mvld_fragment *,
                        size_t room, const char **why);
int rimf_copy_add_fragment(struct mvld_image *, const struct mvld_object *, const struct mvld_fragment *,
                        uintptr_t from, uintptr_t *end, const char **why);
unsigned rimf_copy_in_line(const struct mvld_image *, const struct mvld_object *,
                           const struct mvld_fragment *);
int rimf_copies_commit(struct mvld_image *, struct mvld_copies_report *);
int rimf_region_pages(struct mvld_image *, enum mvld_pages);
int rimf_region_hot(struct mvld_image *, uintptr_t end);

#endif
