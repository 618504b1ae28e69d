/* SPDX-License-Identifier: MIT
 *
 * moved.h: a process under concat, seen from outside: the objects that its log names as
 * moved, their files, their analysis made anew, and what its memory holds.
 *
 *     moved.c       the process and its objects
 *     code.c        instructions and jump tables of moved code
 *     original.c    all original bytes
 *     frames.c      how moved code unwinds
 *     slots.c       where a slot leads
 *     pointers.c    which addresses are canonical
 *     truth.c       main
 */
#ifndef TESTS_MOVED_H
#define TESTS_MOVED_H

#include "../../check.h"

#include "rimf/analyze/analyser.h"

#define REPORTED_MAX 20u
#define JUMP 5u /* e9 rel32 */
#define KEPT_MAX 8u

struct seen_fragment {
    uintptr_t original, at; /* from here so many bytes of code moved there */
    size_t code;
    uint8_t *bytes; /* that are there */
};

struct seen_object {
    const char *path;
    struct analyser analysis;
    uintptr_t bias, low, high;   /* all of its memory */
    struct seen_fragment *fragments; /* by original */
    size_t n_fragments, room;
    int moved;                 /* canonical addresses of its code are where it moved to */
    int snapshot;                /* it came from a snapshot, */
    int overlaid;              /* by dlopen: what moved of others that did may not be there */
    uint8_t *stay;             /* of each jump table: moved code uses the original */
    uintptr_t *tables;         /* of each jump table: where it moved to, 0: nowhere yet */
};

struct process {
    int memory;
    uintptr_t library; /* that reserves the region; stubs are in its first page */
    uintptr_t frames;  /* its .eh_frame_hdr */
    struct seen_object *objects;
    size_t n, room;
    const struct seen_fragment **places; /* those of all objects, by where they are */
    size_t n_places;
    size_t n_wrong;
    uintptr_t kept[KEPT_MAX]; /* where the loader stands in front of a function, whose
                               * original runs */
    size_t n_kept;
    size_t n_instructions, n_operands, n_branches, n_through, n_direct, n_across, n_tables,
        n_entries, n_frames, n_foreseen, n_elsewhere, n_falls, n_moved, n_pointers;
};

/* Counts something that is not as it must be, and says the first of them. */
void wrong(struct process *, const struct seen_object *, uint64_t linked, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The process, stopped, and the lines that its loader wrote. */
void process_open(struct process *, const char *pid, const char *log);
void process_read(const struct process *, uintptr_t at, void *to, size_t size);
/* The object that has the original address, or NULL. */
struct seen_object *object_of(const struct process *, uintptr_t address);
/* Where the code must have moved to; 0: it stays. */
uintptr_t moved_to(const struct process *, uintptr_t original);
/* The same for any original byte, of a movable function or not. */
uintptr_t place_of(const struct seen_object *, uintptr_t original);
/* The byte that is there, which there is. */
const uint8_t *byte_of(const struct seen_object *, uintptr_t original);
/* The original of an address in moved code; the address itself of any other. */
uintptr_t original_of(const struct process *, uintptr_t address);

/* What the program must know as the address of the code: where it moved to, or the original. */
uintptr_t canonical_of(struct process *, uintptr_t original);

/* 1 when a call through the slot (as linked) ends at `target`, an original address. */
int slot_leads(struct process *, const struct seen_object *, uint32_t slot, uintptr_t target);

/* Where a call leads that was `was`, is now `is`, and lies at `at`; *direct: not through its
 * slot or PLT entry.  0: it is something else. */
uintptr_t call_leads(const struct seen_object *, const struct analysis_call *, const uint8_t *was,
                     const uint8_t *is, uintptr_t at, int *direct);
/* Of a call of a function of the object: is it the function's one instruction, as it is in the file,
 * in front of it nothing but prefixes without a meaning? */

void check_code(struct process *, struct seen_object *);
void check_original(struct process *, struct seen_object *);
void check_unwinding(struct process *);
void check_pointers(struct process *, struct seen_object *);

static const uint8_t endbr64[4] = {0xf3, 0x0f, 0x1e, 0xfa};

#endif
