/* SPDX-License-Identifier: MIT
 *
 * rimf/moved/moved.h: moves code of objects into one region.
 *
 * All code of a program is in one region, where huge pages and caches serve it best.  The analysis of each
 * object decides what may move (analysis/analysis.h: movable units).  One rule decides how:
 *
 *     A FUNCTION HAS ONE CANONICAL ADDRESS, the same for everybody who can compare: the one that it
 *     moved to.  Where that is not certain, the original, where it was mapped.
 *
 *         original                          region
 *         f:  [endbr64]                     f':  [endbr64]
 *             jmp f'     ───────────────►        push %rbp …
 *             (rest of f)                        call g'      (of another object, moved too)
 *                                                lea  table(%rip)  → original
 *         slot: f'       ───────────────►        lea  h(%rip)      → h'
 *
 * So pointers, vtables and tables of labels point to moved code, and calls through them stay there.  Holders
 * of addresses, before any code of the program has run:
 *
 *     relocated words of all objects                      moved/slots.c
 *     lea in movable code, moved and original             moved/code.c, moved/entries.c
 *     the answers of dlsym and dladdr                     loader/caller/hooks.c
 *     code that stays, or is not understood               nobody can change: what it takes the
 *                                                         address of keeps it (analysis/analysis.h, FIXED_CODE)
 *     words that cannot be written, thread-locals         likewise (moved/pointers.c)
 *
 * Objects of dlopen are handled before their constructors; their words point to code that moved before and
 * with them.  Functions whose originals run (`kept` of rimf_feeder) keep their addresses, as does all of
 * an object whose analysis, or whose time of loading, does not allow the change.
 *
 * The original is unchanged except for these operands and the jumps: anything that is not understood (a table
 * of offsets that was not recognised, an address that was computed differently) uses the original, and enters
 * the moved code there, or runs the original.  moved/entries.c tells which functions have a jump; most need
 * none.
 *
 * The code of an object moves as one block, by one distance, so references from movable code to movable code
 * of the same object do not change.  Or it is cut into FRAGMENTS, runs of functions that each move by their
 * own distance, in any order, between other objects' fragments (moved/fragments.c tells where it may be cut).
 * A fragment may be left out: its functions run in place, like those that cannot move.  Changes in moved
 * code:
 *
 *     operands that lead to data, to code that keeps its address  displacement - distance
 *     calls of other objects, made direct before or now           to the moved code, if any
 *     the start of a jump table                                   to where the table moved
 *     branches to another fragment                                to that fragment
 *     .eh_frame                                                   a copy of it (moved/frames.c)
 *
 * Program counters and return addresses are of moved code.  Unwinders search one sorted table for all of it,
 * the .eh_frame_hdr of the region's library.  A query for the object of a return address gets that of the
 * original (rimf_original_of; the loader makes the C library call it).
 *
 * Code that a pass adds with names and frames (realise/added.c) is in the same region, but is not a fragment
 * and has no original: it shares only the table, the names and the free addresses.
 *
 * THE ORDER.  Words are made writable if possible, and canonical addresses are decided.  Code is copied into
 * memory that is not executable; then frames; then the code becomes executable; then the C library is hooked;
 * then operands of originals are changed, all of them.  After any failure so far the region is empty again,
 * as if nothing had happened.  Then words are written, which cannot fail; then the jumps.  If a jump cannot
 * be written, code that computes that function's address in an unknown way runs the original.
 */
#ifndef RIMF_MOVED_H
#define RIMF_MOVED_H

#include "rimf/base/base.h"
#include "mvld/pass.h"
#include "rimf/analysis/analysis.h"
#include "rimf/image/original.h"

struct rimf_moved_report {
    size_t objects, units;
    size_t code, frames; /* bytes */
    size_t entries;      /* originals that begin with a jump to moved code */
    size_t in_place;      /* functions that others may enter, without a jump: these run in place */
};

struct changes; /* emit/changes.h */

/* The state for one object, for the files of rimf/. */
struct moving {
    struct mvld_image *image;
    struct rimf_object *object;
    const struct analysis *analysis; /* with the branches, if there are several fragments */
    uintptr_t bias;                 /* of the object */
    const struct moved_fragment *fragment;   /* the selected fragment (moving_at) */
    intptr_t distance;              /* new address minus original, of that fragment */
    uint32_t *tables;               /* moved/code.c: offsets of jump tables */
    const char *why;                /* the sentence for a failure (static) */
};

/* moved/lines.c: the best distance of this code from the beginning of a line, a multiple of RIMF_MOVED_ALIGN,
 * its alignment. */
unsigned moved_line_of(const uint8_t *code, size_t size);
/* The best offset in a line for code of the object; the original's, if that is more specific. */
unsigned moved_in_line(const struct rimf_object *, uintptr_t original, size_t size);

/* moved/fragments.c.  Records that the list's index-th fragment is one of the object's; 0, or -ENOMEM. */
int moved_note(struct mvld_image *, struct rimf_object *, size_t index);
void moved_drop(struct mvld_image *, struct rimf_object *); /* removes all of it */
/* The fragment that contains the original address, or NULL. */
const struct moved_fragment *moved_fragment_at(const struct moved_code *, const struct rimf_object *,
                                     uintptr_t original);
/* The fragment that contains [original, original + length), if it was made and its object is not closed.
 * [any thread] */
const struct moved_fragment *moved_fragment_made(const struct moved_code *, const struct mvld_object *,
                                          uintptr_t original, size_t length);
/* Returns 1 if a fragment in a snapshot's list may be of that original, which is rounded down, if need be to
 * before the segment (lld's begin at any address). */
int moved_fits(const struct rimf_object *, uintptr_t original, size_t code);
/* Selects that fragment; 0: there is none. */
int moving_at(struct moving *, uintptr_t original);
/* Returns 1 if the range, as linked, may move by another distance than its neighbours. */
int moved_is_fragment(const struct analysis *, uint32_t start, size_t size);
/* The smallest of the object's fragments: mvld/pass.h, fragments. */
size_t moved_cut(const struct rimf_object *, const struct analysis *, struct mvld_fragment *,
                  size_t room, const char **why);
/* moved/region.c: sets the region for moved code.  0, or negative errno with a sentence. */
int rimf_region_set(struct mvld_image *, const struct rimf_region *);
/* moved/pages.c: the kind of pages for a new region. */
void moved_pages_wanted(struct mvld_image *, enum mvld_pages);
/* moved/batch.c: drops the declared moves. */
void moved_drop_plan(struct mvld_image *);
/* Returns 1 if the index-th of the list is the first of its object, which is not closed. */
int moved_is_first(const struct moved_code *, size_t index);

/* moved/batch.c: logs the new address of its code. */
void moved_report(const struct mvld_image *, const struct rimf_object *);

/* moved/code.c: copies the bytes to mapped, writable memory.  0, or negative errno. */
int move_code(struct moving *);
/* Returns -ENOEXEC, with that reason. */
int moving_refuse(struct moving *, const char *why);
/* The new address of the byte, with its fragment selected.  NULL: it stays. */
uint8_t *moving_byte(struct moving *, uint32_t linked);
/* Gives the displacement at `at`, of an instruction that ends at `next`, the target `target`.  0, or negative
 * errno: it is too far. */
int moving_target(struct moving *, uint8_t *at, uintptr_t next, uintptr_t target);
/* moved/frames.c: writes frames of code that no object describes to `to`.  Returns their end. */
struct rimf_described;
size_t moved_frames_described_size(const struct rimf_described *, size_t n);
uintptr_t moved_frames_described(struct moved_code *, const struct rimf_described *, size_t n, uintptr_t to);
/* Writes its .eh_frame to `to`. */
size_t moved_frames_size(const struct moving *);
int moved_frames(struct moving *, uintptr_t to);
/* Writes the selected fragment's part of the sorted table, after the object's `frames`.  Parts ascend; they
 * are invisible before moved_frames_publish. */
int moved_frames_sorted(struct moving *);
void moved_frames_publish(struct moved_code *);
/* The start of the code that one record describes and that contains [at, at + length) of moved code, or 0.
 * [any thread] */
uintptr_t moved_frames_start(const struct moved_code *, uintptr_t at, size_t length);
/* The bytes at the start of `frames` that belong to the table. */
size_t moved_frames_table(const struct rimf_region *);
/* Of these, the pages of `n` entries, in bytes. */
#define MOVED_FRAMES_HEAD 12u /* bytes */
#define MOVED_FRAMES_ENTRY 8u
static inline size_t moved_frames_searched(size_t n)
{
    return rimf_page_up(MOVED_FRAMES_HEAD + n * MOVED_FRAMES_ENTRY);
}
/* moved/pages.c: maps zeroed writable memory over the reservation, in pages as large as wanted and available.
 * 0, or negative errno. */
long moved_pages_open(struct mvld_image *, uintptr_t start, uintptr_t end);
/* Maps small pages of zeros over the present mapping; unwritable ones take no memory. */
long moved_pages_small(const struct mvld_image *, uintptr_t start, uintptr_t end, int prot);
/* Maps zeroed memory, every byte of which will be written.  0, or negative errno. */
long moved_pages_fill(struct mvld_image *image, uintptr_t start, uintptr_t end);
/* The end of pages that contain code up to `end`. */
uintptr_t moved_pages_end(const struct moved_code *, uintptr_t start, uintptr_t end);
/* Called once they are executable: the kernel joins small pages, if wanted. */
void moved_pages_join(struct mvld_image *, uintptr_t start, uintptr_t end);
/* Called when code of a snapshot is mapped here, in small pages, from `offset` of its file on: makes pages as
 * wanted, as far as it can. */
void moved_pages_of_file(struct mvld_image *, uintptr_t start, uintptr_t end, uint64_t offset);
/* The offset in a file, from `least` on, at which the code of the region can have huge pages. */
uint64_t moved_pages_offset(const struct moved_code *, uint64_t least);
/* moved/entries.c: lists the jumps at the start of originals.  0, or negative errno. */
int move_entries(struct moving *, struct changes *, struct rimf_moved_report *);
/* From here on holders of original addresses of planned code are recorded; */
void move_entries_begin(struct mvld_image *);
/* and this records that a word or an operand has this address. */
void move_entries_held(struct mvld_image *, struct rimf_object *, uintptr_t original);

/* Lists changes of operands of originals to moved code.  0, or negative errno: one is too far. */
int move_operands(struct moving *, struct changes *);

/* moved/slots.c: relocated words.  `table` is that of the image. */
struct moved_writing; /* state for writing: memory, and which variables were copied */
struct copied_variable { /* R_X86_64_COPY */
    uintptr_t from, to;
    size_t size;
};
/* Returns 1 if it may have addresses that are not final. */
int moved_slots_held(const struct mvld_image *, const struct rimf_object *);
/* Visits words that relocations make addresses, including slots; the visitor returns 0. */
void moved_slots_each(const struct rimf_object *, int (*visit)(void *cookie, uintptr_t slot), void *cookie);
/* The range of words in a writable segment of an object; zeros: none. */
struct moved_open {
    uintptr_t start, end;
};
/* The range that contains this one; 1, or 0: none. */
int moved_slots_open(const struct rimf_object *, uintptr_t slot, struct moved_open *);
/* The same for many: most are in the range of the previous one. */
static inline int moved_slot_is_open(const struct rimf_object *object, uintptr_t slot, struct moved_open *in)
{
    return slot - in->start < in->end - in->start || moved_slots_open(object, slot, in);
}
/* How many there are, or -ENOENT: one was not found. */
long moved_slots_copied(const struct mvld_image *, const struct rimf_table *table,
                       void (*found)(void *cookie, const struct copied_variable *), void *cookie);
struct moved_writing *moved_slots_prepare(struct mvld_image *, const struct rimf_table *table);
size_t moved_slots_write(struct moved_writing *, const struct rimf_table *table);

/* Makes RELRO of one object writable; 0, or negative errno. */
int moved_relro_open_one(const struct mvld_image *, struct rimf_object *);
/* Returns 1 if the host loader has already protected it. */
int moved_relro_is_relocated(struct mvld_image *, const struct rimf_object *);
/* Makes RELRO of all objects with such words writable; NULL, or a sentence, and none is writable. */
const char *moved_relro_open(struct mvld_image *, const struct rimf_table *);
/* Protects all of it again. */
void moved_relro_close(struct mvld_image *, const struct rimf_table *);

/* moved/pointers.c.  The canonical address of what was mapped at `original`, inside or outside of this fragment; of
 * any fragment of the object. */
uintptr_t canonical_address(const struct moved_fragment *, uintptr_t original);
uintptr_t moving_canonical(const struct moving *, uintptr_t original);
/* Returns 1 if the canonical address of the fragment's code at this offset is the original. */
int canonical_stays(const struct moved_fragment *, uintptr_t offset);
/* Sets `is_canonical` and `fixed` of the planned fragments, and makes RELRO writable; or
 * returns NULL, and all addresses are the originals.  canonical_end must follow. */
struct moved_writing *canonical_plan(struct mvld_image *);
void canonical_end(struct mvld_image *, struct moved_writing *, int failed);

/* The new address of code at `original`, or 0; or else `original`.  For the thread that loads. */
uintptr_t rimf_moved_to(struct mvld_image *, uintptr_t original);
uintptr_t rimf_moved_or(struct mvld_image *, uintptr_t original);
/* The value of the word; for an address in moved code, the original. */
uintptr_t moved_word(const struct mvld_image *, uintptr_t word);
/* The canonical address of the code: the new one, or `original`.  [any thread, signal handler] */
uintptr_t rimf_canonical_address(const struct mvld_image *, uintptr_t original);
/* Called after passes, before constructors, where there is a region: objects with addresses of moved code get the
 * canonical ones, if none of their code has run (`unentered` of rimf_feeder). */
void rimf_moved_finish(struct mvld_image *);
/* Where this code moved to, or 0.  Its object may be closed meanwhile: the original is not read.  [any thread] */
uintptr_t rimf_moved_copy(const struct mvld_image *, uintptr_t original, size_t length);
/* moved_find of mvld/pass.h (moved/places.c).  [any thread] */
int rimf_moved_find(const struct mvld_image *, uintptr_t original, size_t length, uintptr_t *fragment);
/* The object was closed; its moved code is never entered again. */
void rimf_moved_forget(struct mvld_image *, const struct mvld_object *);

/* Code in the region's library that no object's unwind table describes. */
struct rimf_described {
    uintptr_t start;
    uint32_t size;
    uint8_t frame_size;
    const uint8_t *frame; /* DWARF instructions, from the start of a function on */
    const char *name;     /* for code of passes */
};
/* moved/batch.c: makes unwinders know it: it is above everything that they knew before.  0, or negative errno
 * with a sentence, and they know none of it. */
int moved_describe(struct mvld_image *, const struct rimf_described *, size_t n);
/* moved/region.c: the present region, or that of the library that brings one; or NULL and a static sentence. */
struct moved_code *moved_region(struct mvld_image *, const char **why);
/* Two symbols of that library, which any pass may bring: its memory for code, and for unwind tables.  0, or
 * -ENOENT: no such library is in the program. */
int moved_library(const struct mvld_image *, struct mvld_symbol *code, struct mvld_symbol *frames);
/* Two more: GDB's JIT interface. */
#define MOVED_JIT "mvld_moved_jit"
#define MOVED_JIT_CHANGED "mvld_moved_jit_changed"

/* While caller_hooks() runs: returns 1 if the code at this address is about to be replaced by a snapshot's,
 * which contains the hooks of the process that made it.  If that is not possible after all, the snapshot is
 * not applied. */
int rimf_image_maps_over(const struct mvld_image *, uintptr_t address);

/* One of rimf_feeder's `kept`. */
int rimf_is_kept_original(const struct mvld_image *, uintptr_t function);

/* moved/batch.c: moves the declared code, all or nothing; and reports. */
int rimf_moved_commit(struct mvld_image *, struct rimf_moved_report *);

/* ---- behind rimf_api() ------------------------------------------------------------ */

int rimf_region_open(const struct mvld_context *, enum mvld_pages, uint32_t names, const char **why);
size_t rimf_fragments(struct mvld_image *, const struct mvld_object *, struct mvld_fragment *,
                      size_t room, const char **why);
int rimf_fragment_move(struct mvld_image *, const struct mvld_object *, const struct mvld_fragment *,
                       size_t gap, uint32_t flags, const char **why);

#endif
